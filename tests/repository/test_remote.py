"""Push and fetch over real HTTP: results, messages, and who gets the token."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository import git as git_module
from gitlab_nightshift.repository import remote
from gitlab_nightshift.repository.git import CommitIdentity, find_repository_paths
from gitlab_nightshift.repository.private_repository import (
    Repository,
    commit_tree,
    create_private_repository,
    has_commit,
)
from gitlab_nightshift.repository.remote import GitServer, TransferStatus, fetch, push
from gitlab_nightshift.repository.tree_objects import resolve_tree
from gitlab_nightshift.sandbox import process
from tests.repository.conftest import Box
from tests.repository.tools import commit, git, write
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

TOKEN = "glpat-Püblish'ing $(x) `y` Token"
READER = "glpat-Reader"
ANN = CommitIdentity("Ann", "ann@example.org")


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FullStandin]:
    with FullStandin(tmp_path / "gitlab") as server:
        bot = server.add_user("bot", "Bot")
        server.add_token(TOKEN, bot, scopes=("api", "write_repository"), access_level=30)
        server.add_token(READER, bot, scopes=("api", "read_repository"), access_level=20)
        yield server


@pytest.fixture
def project(gitlab: FullStandin, box: Box) -> FullProject:
    made = gitlab.add_project("group/shop")
    for number in range(3):
        write(box.root, "counter", str(number))
        commit(box.root)
    git(box.root, "push", "-q", str(made.bare_repository), "HEAD:refs/heads/main")
    return made


@pytest.fixture
def shallow(box: Box, project: FullProject, tmp_path: Path) -> Repository:
    """The private repository beside a checkout of depth 2."""
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{box.root}", "checkout")
    found = find_repository_paths(box.git, tmp_path / "checkout")
    return create_private_repository(box.git, box.private / "publish", found)


def new_commit(repository: Repository, box: Box, message: bytes = b"new") -> str:
    base = git(box.root, "rev-parse", "HEAD")
    return commit_tree(
        repository,
        resolve_tree(repository, f"{base}~1"),
        parent=base,
        message=message,
        author=ANN,
        committer=ANN,
        date="1700000000 +0000",
    )


def server(project: FullProject, token: str = TOKEN) -> GitServer:
    return GitServer(project.http_url, token)


def test_push_from_a_shallow_checkout(shallow: Repository, box: Box, project: FullProject) -> None:
    new = new_commit(shallow, box)
    done = push(shallow, server(project), new, "night-shift/x")
    assert done.ok and done.commit == new
    assert git(project.bare_repository, "rev-parse", "refs/heads/night-shift/x") == new
    assert push(shallow, server(project), new, "night-shift/x").ok, "twice is no failure"


def test_a_branch_with_other_content_is_not_overwritten(
    shallow: Repository, box: Box, project: FullProject
) -> None:
    theirs, ours = (new_commit(shallow, box, text) for text in (b"theirs", b"ours"))
    assert push(shallow, server(project), theirs, "night-shift/x").ok
    done = push(shallow, server(project), ours, "night-shift/x")
    assert done.status is TransferStatus.NOT_FAST_FORWARD
    assert git(project.bare_repository, "rev-parse", "refs/heads/night-shift/x") == theirs


def test_a_protected_branch_is_reported(
    shallow: Repository, box: Box, project: FullProject
) -> None:
    project.protected_branches[:] = ["main"]
    done = push(shallow, server(project), new_commit(shallow, box), "main")
    assert done.status is TransferStatus.PROTECTED_BRANCH
    assert "protected branches" in done.message


@pytest.mark.parametrize("token", ["glpat-wrong", READER])
def test_a_token_without_rights_is_reported(
    shallow: Repository, box: Box, project: FullProject, token: str
) -> None:
    done = push(shallow, server(project, token), new_commit(shallow, box), "x")
    assert done.status is TransferStatus.AUTHENTICATION
    assert token not in done.message and done.message


def test_a_failed_connection_is_reported(shallow: Repository, box: Box) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as unused:
        port = unused.server_port
    url = f"http://127.0.0.1:{port}/g/shop.git"
    done = push(shallow, GitServer(url, TOKEN), new_commit(shallow, box), "x")
    assert done.status is TransferStatus.NETWORK
    assert len(done.message.splitlines()) == 1


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_error_is_reported(shallow: Repository, box: Box, status: int) -> None:
    with answering(status, {}) as (url, _):
        assert push(shallow, GitServer(url, TOKEN), new_commit(shallow, box), "x").status is (
            TransferStatus.NETWORK
        )


def test_all_of_gits_messages_are_reported(shallow: Repository, box: Box) -> None:
    """The last one alone would be "the remote end hung up"."""
    with answering(413, {}) as (url, _):
        done = push(shallow, GitServer(url, TOKEN), new_commit(shallow, box), "x")
    assert "The requested URL returned error: 413" in done.message


def test_fetch_brings_the_tip(shallow: Repository, box: Box, project: FullProject) -> None:
    before = new_commit(shallow, box)
    write(box.root, "moved", "x")
    tip = commit(box.root)
    git(box.root, "push", "-q", str(project.bare_repository), "HEAD:refs/heads/main")
    assert not has_commit(shallow, tip)
    done = fetch(shallow, server(project), "main")
    assert done.ok and done.commit == tip and has_commit(shallow, tip)
    assert push(shallow, server(project), before, "after").ok


def test_fetch_of_a_missing_branch_is_reported(shallow: Repository, project: FullProject) -> None:
    done = fetch(shallow, server(project), "nothing")
    assert not done.ok and "nothing" in done.message


# --- where the token goes -----------------------------------------------------------------------


@contextmanager
def answering(status: int, headers: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """A server that gives one answer, and the Authorization headers it was sent."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/g/shop.git", seen
        http.shutdown()
        thread.join()


def test_a_redirect_is_not_followed(shallow: Repository, box: Box) -> None:
    asks = {"WWW-Authenticate": 'Basic realm="x"'}
    with answering(401, asks) as (other, seen), answering(302, {"Location": other}) as (url, _):
        done = push(shallow, GitServer(url, TOKEN), new_commit(shallow, box), "x")
    assert not done.ok and seen == []


def test_the_askpass_script_answers_for_one_server(shallow: Repository) -> None:
    known = GitServer("https://gitlab.example.org:8443/g/shop.git", TOKEN)
    with remote._prepare_askpass(shallow.folder, known) as env:

        def asked(prompt: str) -> str:
            done = process.capture(
                [env["GIT_ASKPASS"], prompt], cwd=shallow.folder, env={"PATH": "/bin", **env}
            )
            return done.stdout.decode()

        assert asked("Username for 'https://gitlab.example.org:8443': ") == "oauth2\n"
        assert asked("Password for 'https://oauth2@gitlab.example.org:8443': ") == f"{TOKEN}\n"
        for host in ("evil.example.org", "gitlab.example.org", "gitlab.example.org:8443.evil.org"):
            assert asked(f"Password for 'https://oauth2@{host}': ") == ""
        assert asked("Password for 'http://oauth2@gitlab.example.org:8443': ") == ""
        assert TOKEN not in Path(env["GIT_ASKPASS"]).read_text()
    assert not Path(env["GIT_ASKPASS"]).exists()


def test_the_token_is_in_no_argument_and_no_file(
    shallow: Repository, box: Box, project: FullProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_id = new_commit(shallow, box)
    calls: list[tuple[list[str], dict[str, str]]] = []

    def spy(
        argv: list[str], *, cwd: Path, env: dict[str, str], **rest: object
    ) -> process.CapturedOutput:
        calls.append((argv, env))
        done = process.capture(argv, cwd=cwd, env=env, **rest)  # type: ignore[arg-type]
        for path in box.private.rglob("*"):
            assert not path.is_file() or b"glpat" not in path.read_bytes()
        return done

    monkeypatch.setattr(git_module, "capture", spy)
    assert push(shallow, server(project), commit_id, "x").ok
    assert fetch(shallow, server(project), "main").ok
    for argv, env in calls:
        assert not any("glpat" in part for part in argv)
        assert (remote.TOKEN_VARIABLE in env) == ("push" in argv or "fetch" in argv)
    assert TOKEN not in repr(server(project))


def test_only_known_network_variables_reach_git(
    shallow: Repository, box: Box, project: FullProject
) -> None:
    env = {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1", "GIT_TRACE": "1"}
    known = GitServer(project.http_url, TOKEN, env=env)
    done = push(shallow, known, new_commit(shallow, box), "x")
    assert done.status is TransferStatus.NETWORK, "the proxy was asked"
    with remote._prepare_askpass(shallow.folder, known) as given:
        assert "GIT_TRACE" not in given and given["http_proxy"] == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "url",
    [
        *("git@host:g/s.git", "ssh://host/g", "file:///tmp/x", "/tmp/x", "ext::sh -c x", ""),
        *("https://a:b@host/g.git", "https:///g.git"),
    ],
)
def test_other_urls_are_refused(shallow: Repository, url: str) -> None:
    with pytest.raises(NightshiftError, match=r"must be http\(s\)"):
        push(shallow, GitServer(url, TOKEN), "HEAD", "x")


def test_messages_carry_no_credentials_and_no_control_characters() -> None:
    text = "fatal: unable to access 'https://ci:pass@host/g': \x1b[31mtok en\nx"
    assert remote._format_message(text, GitServer("https://host/g", "tok en")) == (
        "fatal: unable to access 'https://host/g': [31m[secret]"
    )
