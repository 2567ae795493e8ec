"""Clocks that do not wait; a façade for GitLab's error answers, and one for the stand-in."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.resources import NewMergeRequest
from tests.support.clock import FakeTime
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

SERVER = "https://gitlab.example"
API = f"{SERVER}/api/v4"
PROJECT = f"{API}/projects/7"
TOKEN = "glpat-secret-token-0001"


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def project(time: FakeTime) -> Project:
    return open_project(SERVER, "7", TOKEN, clock=time.clock)


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FullStandin]:
    with FullStandin(tmp_path / "gitlab") as standin:
        bot = standin.add_user("night-bot", "Night Shift", bot=True)
        standin.add_token(TOKEN, bot)
        yield standin
        assert standin.errors == []


def git(folder: Path, *args: str) -> str:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ada@example.invalid" for who in ("AUTHOR", "COMMITTER")},
    }
    done = subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def remote(gitlab: FullStandin, tmp_path: Path) -> FullProject:
    """A project whose main is one commit behind the branches night-shift/a to c."""
    made, work = gitlab.add_project("team/app"), tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    git(work, "branch", "start")
    for name in ("a", "b", "c"):
        git(work, "checkout", "-q", "-b", f"night-shift/{name}", "main")
        git(work, "commit", "-q", "--allow-empty", "-m", name)
    git(work, "push", "-q", str(made.bare_repository), "--all")
    return made


@pytest.fixture
def app(gitlab: FullStandin, remote: FullProject, time: FakeTime) -> Project:
    return open_project(gitlab.url, str(remote.id), TOKEN, clock=time.clock)


def new(branch: str = "night-shift/a", **more: object) -> NewMergeRequest:
    values = {"title": "T", "body": "B", "target_branch": "main", **more}
    return NewMergeRequest(source_branch=branch, **values)  # type: ignore[arg-type]
