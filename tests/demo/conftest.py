"""A served stand-in with a project of two commits; git without this machine's settings."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import gitlab as python_gitlab
import pytest

from gitlab_nightshift.demo.standin_state import User
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

TOKEN, READER, REPORTER_TOKEN, GUEST_TOKEN, MAINTAINER_TOKEN, JOB = (
    "glpat-developer",
    "glpat-read-only",
    "glpat-reporter",
    "glpat-guest",
    "glpat-maintainer",
    "glcbt-job",
)

Git = Callable[..., "subprocess.CompletedProcess[str]"]
Connect = Callable[..., python_gitlab.Gitlab]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    home = tmp_path / "git-home"
    home.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ada@example.invalid" for who in ("AUTHOR", "COMMITTER")},
    }

    def run(
        *arguments: str | Path, cwd: Path = tmp_path, status: int = 0, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            ["git", *map(str, arguments)],
            cwd=cwd,
            env={**env, **variables},
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == status, done
        return done

    return run


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FullStandin]:
    with FullStandin(tmp_path / "gitlab") as standin:
        user = standin.add_user("night-bot", "Night Shift", bot=True)
        standin.add_token(TOKEN, user)
        standin.add_token(READER, user, ("read_api", "read_repository"), 20)
        standin.add_token(REPORTER_TOKEN, user, access_level=20)
        standin.add_token(GUEST_TOKEN, user, access_level=10)
        standin.add_token(MAINTAINER_TOKEN, user, access_level=40)
        standin.add_token(JOB, user, kind="job")
        yield standin
        assert standin.errors == []


@pytest.fixture
def work(tmp_path: Path, git: Git) -> Path:
    """A local repository with two commits on main."""
    work = tmp_path / "work"
    git("init", "--quiet", "--initial-branch=main", work)
    for name in ("first", "second"):
        (work / f"{name}.txt").write_text(f"{name}\n")
        git("add", ".", cwd=work)
        git("commit", "--quiet", "-m", f"Add {name}", cwd=work)
    return work


@pytest.fixture
def project(gitlab: FullStandin, work: Path, git: Git) -> FullProject:
    project = gitlab.add_project("team/sub/app")
    git("push", "--quiet", project.bare_repository, "main", cwd=work)
    return project


@pytest.fixture
def branch(project: FullProject, work: Path, git: Git) -> str:
    """A branch of the project, one commit ahead: one file changed, added, deleted, renamed each."""
    git("checkout", "--quiet", "-b", "night-shift/one", cwd=work)
    (work / "second.txt").rename(work / "zweite Ümlaut.txt")
    (work / "first.txt").write_text("changed\n")
    (work / "new.bin").write_bytes(b"\0\1\2")
    git("add", "--all", cwd=work)
    git("commit", "--quiet", "-m", "Improve it\n\nBecause.\n", cwd=work)
    git("push", "--quiet", project.bare_repository, "HEAD", cwd=work)
    return "night-shift/one"


@pytest.fixture
def connect(gitlab: FullStandin) -> Iterator[Connect]:
    clients: list[python_gitlab.Gitlab] = []

    def connected(token: str | None = TOKEN, **other: str) -> python_gitlab.Gitlab:
        credential: dict[str, str | None] = {**other} or {"private_token": token}
        client = python_gitlab.Gitlab(gitlab.url, timeout=60, **credential)  # type: ignore[arg-type]
        clients.append(client)
        return client

    yield connected
    for client in clients:
        client.session.close()


@pytest.fixture
def reviewer(gitlab: FullStandin) -> User:
    return gitlab.add_user("grace", "Grace Hopper")


def credentials_in(url: str, token: str, user: str = "oauth2") -> str:
    return url.replace("http://", f"http://{user}:{token}@")
