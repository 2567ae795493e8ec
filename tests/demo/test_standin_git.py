"""The stand-in's Git side, driven by the real git."""

import base64
import os
import socket
import threading
from pathlib import Path

import pytest
import requests

from gitlab_nightshift.demo.standin_state import Credential
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject
from tests.support.trees import processes_in, wait_for

from .conftest import (
    GUEST_TOKEN,
    JOB,
    MAINTAINER_TOKEN,
    READER,
    REPORTER_TOKEN,
    TOKEN,
    Connect,
    Git,
    credentials_in,
)

ZERO = "0" * 40


def test_clone_fetch_and_push(
    gitlab: FullStandin, project: FullProject, work: Path, tmp_path: Path, git: Git
) -> None:
    url = credentials_in(project.http_url, TOKEN)
    cloned = git("clone", "--quiet", url, tmp_path / "clone", GIT_TRACE_PACKET="1")
    assert "clone< version 2" in cloned.stderr
    assert (tmp_path / "clone" / "second.txt").read_text() == "second\n"
    head = git("rev-parse", "HEAD", cwd=work).stdout.strip()
    git("push", "-o", "ci.skip", "-o", "a=b c", url, "HEAD:refs/heads/topic/x", cwd=work)
    git("fetch", "--quiet", "origin", "topic/x", cwd=tmp_path / "clone")
    assert git("rev-parse", "FETCH_HEAD", cwd=tmp_path / "clone").stdout.strip() == head
    [push] = project.pushes
    assert (push.old, push.new, push.ref) == (ZERO, head, "refs/heads/topic/x")
    assert push.options == ("ci.skip", "a=b c")
    assert Credential("basic", "oauth2", TOKEN) in gitlab.credentials_seen
    assert gitlab.requests[0].path == "/team/sub/app.git/info/refs"
    assert gitlab.requests[0].query == {"service": "git-upload-pack"}
    assert gitlab.requests[0].status == 401
    assert TOKEN not in repr(gitlab.requests)


def test_shallow_clone_and_push_from_it(project: FullProject, tmp_path: Path, git: Git) -> None:
    url, clone = credentials_in(project.http_url, TOKEN), tmp_path / "clone"
    git("clone", "--quiet", "--depth=1", url, clone)
    assert git("rev-list", "--count", "HEAD", cwd=clone).stdout.strip() == "1"
    git("commit", "--quiet", "--allow-empty", "-m", "third", cwd=clone)
    git("push", "--quiet", "origin", "HEAD:refs/heads/topic", cwd=clone)
    git("fetch", "--quiet", "--unshallow", cwd=clone)
    assert git("rev-list", "--count", "HEAD", cwd=clone).stdout.strip() == "3"


def test_a_large_push_and_a_large_request_body(
    project: FullProject, work: Path, tmp_path: Path, git: Git
) -> None:
    """Above 1 MiB git sends the pack chunked; a long list of wants comes gzip'd."""
    (work / "large.bin").write_bytes(os.urandom(1_500_000))
    git("add", ".", cwd=work)
    git("commit", "--quiet", "-m", "Add a large file", cwd=work)
    tree = git("rev-parse", "HEAD^{tree}", cwd=work).stdout.strip()
    for number in range(30):
        commit = git("commit-tree", tree, "-m", f"n{number}", cwd=work).stdout.strip()
        (work / f".git/refs/heads/b{number}").write_text(f"{commit}\n")
    url = credentials_in(project.http_url, TOKEN)
    pushed = git("push", url, "refs/heads/b*:refs/heads/b*", cwd=work, GIT_TRACE_CURL="1").stderr
    assert "Transfer-Encoding: chunked" in pushed
    cloned = git("clone", "--mirror", url, tmp_path / "clone", GIT_TRACE_CURL="1").stderr
    assert "Send header: Content-Encoding: gzip" in cloned
    git("fsck", "--full", cwd=tmp_path / "clone")
    size = git("cat-file", "-s", "b0:large.bin", cwd=tmp_path / "clone").stdout.strip()
    assert size == "1500000"


def test_a_chunked_body_below_one_mebibyte(project: FullProject, work: Path, git: Git) -> None:
    (work / "medium.bin").write_bytes(os.urandom(300_000))
    git("add", ".", cwd=work)
    git("commit", "--quiet", "-m", "Add a file", cwd=work)
    url = credentials_in(project.http_url, TOKEN)
    git("-c", "http.postBuffer=65536", "push", "--quiet", url, "HEAD:refs/heads/x", cwd=work)
    assert git("fsck", "--full", cwd=project.bare_repository)
    assert [push.ref for push in project.pushes] == ["refs/heads/x"]


def test_a_wrong_token_is_refused(
    gitlab: FullStandin, project: FullProject, work: Path, git: Git
) -> None:
    url = credentials_in(project.http_url, "glpat-wrong")
    stderr = git("push", url, "HEAD:refs/heads/x", cwd=work, status=128).stderr
    assert "HTTP Basic: Access denied" in stderr
    assert "Authentication failed" in stderr
    assert Credential("basic", "oauth2", "glpat-wrong") in gitlab.credentials_seen
    assert "could not read Username" in git("ls-remote", project.http_url, status=128).stderr


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        ((REPORTER_TOKEN, "oauth2"), "You are not allowed to push code to this project."),
        ((READER, "oauth2"), "You are not allowed to upload code."),
        ((JOB, "gitlab-ci-token"), "You are not allowed to upload code."),
        ((JOB, "oauth2"), "HTTP Basic: Access denied"),
    ],
)
def test_pushing_takes_a_developer(
    project: FullProject, work: Path, git: Git, offered: tuple[str, str], message: str
) -> None:
    url = credentials_in(project.http_url, *offered)
    assert message in git("push", url, "HEAD:refs/heads/x", cwd=work, status=128).stderr
    assert project.pushes == []


def test_reading_takes_a_reporter(
    gitlab: FullStandin, project: FullProject, work: Path, git: Git
) -> None:
    git("ls-remote", credentials_in(project.http_url, READER))
    git("ls-remote", credentials_in(project.http_url, JOB, "gitlab-ci-token"))
    refused = git("ls-remote", credentials_in(project.http_url, GUEST_TOKEN), status=128)
    assert "You are not allowed to download code" in refused.stderr
    missing = git("ls-remote", credentials_in(f"{gitlab.url}/no/such.git", TOKEN), status=128)
    assert "could not be found" in missing.stderr
    public = gitlab.add_project("open/source", visibility="public")
    git("ls-remote", public.http_url)
    git("push", public.http_url, "HEAD:refs/heads/x", cwd=work, status=128)


def test_protected_branches_are_refused(
    gitlab: FullStandin, project: FullProject, work: Path, git: Git
) -> None:
    project.protected_branches.append("release/*")
    url = credentials_in(project.http_url, TOKEN)
    git("commit", "--quiet", "--allow-empty", "-m", "third", cwd=work)
    stderr = git("push", url, "HEAD:refs/heads/main", cwd=work, status=1).stderr
    message = "You are not allowed to push code to protected branches on this project."
    assert f"remote: GitLab: {message}" in stderr
    assert "pre-receive hook declined" in stderr
    stderr = git("push", url, "HEAD:refs/heads/release/1/2", cwd=work, status=1).stderr
    assert "You are not allowed to create protected branches on this project." in stderr
    stderr = git("push", url, ":refs/heads/main", cwd=work, status=1).stderr
    assert "You are not allowed to delete protected branches from this project. Only" in stderr
    git("push", url, "HEAD:refs/heads/release", cwd=work)
    assert [push.ref for push in project.pushes] == ["refs/heads/release"]


def test_a_maintainer_may_push_there_but_not_by_force(
    project: FullProject, work: Path, git: Git
) -> None:
    url = credentials_in(project.http_url, MAINTAINER_TOKEN)
    git("commit", "--quiet", "--allow-empty", "-m", "third", cwd=work)
    git("push", url, "HEAD:refs/heads/main", cwd=work)
    stderr = git("push", url, "+HEAD~2:refs/heads/main", cwd=work, status=1).stderr
    assert "You are not allowed to force push code to a protected branch" in stderr


def test_only_the_smart_protocol(gitlab: FullStandin, project: FullProject) -> None:
    answer = requests.get(f"{project.http_url}/info/refs", auth=("oauth2", TOKEN), timeout=60)
    assert answer.status_code == 403
    config = requests.get(f"{project.http_url}/config", auth=("oauth2", TOKEN), timeout=60)
    assert config.status_code == 404


def test_faults_reach_git_too(
    gitlab: FullStandin, project: FullProject, work: Path, git: Git
) -> None:
    url = credentials_in(project.http_url, TOKEN)
    gitlab.fail_next("GET", r"/info/refs$", 502, "Bad gateway")
    assert "502" in git("push", url, "HEAD:refs/heads/x", cwd=work, status=128).stderr
    gitlab.drop_next("POST", r"/git-receive-pack$")
    git("push", url, "HEAD:refs/heads/x", cwd=work, status=1)
    assert [push.ref for push in project.pushes] == ["refs/heads/x"], "it worked all the same"


def test_two_pushes_at_once(project: FullProject, work: Path, git: Git) -> None:
    url = credentials_in(project.http_url, TOKEN)
    threads = [
        threading.Thread(
            target=git,
            args=("push", "--quiet", url, f"HEAD:refs/heads/t{number}"),
            kwargs={"cwd": work},
        )
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(push.ref[-2:] for push in project.pushes) == ["t0", "t1", "t2", "t3"]


def test_the_users_configuration_does_not_reach_the_server(
    project: FullProject, work: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A HOME whose git configuration breaks everything: the server never reads it."""
    home = tmp_path / "bad-home"
    home.mkdir()
    (home / ".gitconfig").write_text("[receive]\n\tdenyUpdates = true\n[broken\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    git("push", "--quiet", credentials_in(project.http_url, TOKEN), "HEAD:refs/heads/x", cwd=work)
    assert [push.ref for push in project.pushes] == ["refs/heads/x"]


def test_the_end_waits_for_no_client(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A client that stops within a push: the backend is ended, the threads are joined."""
    threads = threading.active_count()
    with FullStandin(tmp_path / "gitlab") as gitlab:
        gitlab.add_token(TOKEN, gitlab.add_user("x", "X"))
        gitlab.add_project("a/b")
        basic = base64.b64encode(f"x:{TOKEN}".encode()).decode()
        client = socket.create_connection(("127.0.0.1", int(gitlab.url.rpartition(":")[2])))
        client.sendall(
            b"POST /a/b.git/git-receive-pack HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/x-git-receive-pack-request\r\n"
            b"Authorization: Basic %s\r\nContent-Length: 1000\r\n\r\n0094" % basic.encode()
        )
        wait_for(lambda: processes_in(tmp_path), "the backend of the push")
    client.close()
    assert processes_in(tmp_path) == []  # orphans of earlier tests are children of this process
    assert threading.active_count() == threads
    assert gitlab.errors == []
    assert capfd.readouterr() == ("", "")


def test_a_merge_request_from_a_pushed_branch(
    project: FullProject, work: Path, git: Git, connect: Connect
) -> None:
    url = credentials_in(project.http_url, TOKEN)
    git("commit", "--quiet", "--allow-empty", "-m", "third", cwd=work)
    git("push", "--quiet", url, "HEAD:refs/heads/topic", cwd=work)
    made = (
        connect()
        .projects.get(project.id)
        .mergerequests.create({"source_branch": "topic", "target_branch": "main", "title": "x"})
    )
    assert made.sha == git("rev-parse", "HEAD", cwd=work).stdout.strip()
