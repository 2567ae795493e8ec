"""Killed at each step, with everything in the container: the runner's own next fetch works."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.host import checkout as checkout_module
from gitlab_nightshift.host import throwaway
from gitlab_nightshift.host.sandbox import uid
from tests.host.conftest import Box, new_repository
from tests.host.sandbox.tools import open_folder
from tests.host.test_cover import die, night
from tests.host.test_owners import as_user, given
from tests.host.tools import commit, fork, git, wait_end, write
from tests.support.runner import Runner

URL = "https://gitlab.example.org/g/shop.git"
STEPS = ("saving", "between", "covered", "renewing", "uncovering", "releasing")
MOUNTED = ("mounted: saving", "mounted: working", "mounted: leaving")


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    new_repository(tmp_path / "upstream")
    write(tmp_path / "upstream", "README.md", "hello\n")
    for number in range(25):
        write(tmp_path / "upstream", "counter", f"{number}\n")
        commit(tmp_path / "upstream")
    return tmp_path / "upstream"


def checked_out(folder: Path, upstream: Path, **how: bool) -> tuple[Runner, Box]:
    """A workspace as a runner has it before the night."""
    root = folder / "builds" / "shop"
    root.parent.mkdir(parents=True)
    runner = Runner(root, URL, f"file://{upstream}", **how)
    base = git(upstream, "rev-parse", "HEAD")
    runner.get_sources(base)
    private = folder / "private"
    private.mkdir(mode=0o700)
    return runner, Box(root, private, base)


def use_git(box: Box) -> None:
    """An honest agent's git, then the end of everything."""
    git(box.root, "config", "user.name", "agent")
    git(box.root, "commit", "-qam", "mine")
    write(box.root, ".git/index.lock")
    die()


def killed(box: Box, when: str) -> None:
    if not when.startswith("mounted: "):
        night(box, when, partial(use_git, box))
        return
    with pytest.MonkeyPatch.context() as patch:
        if when.endswith("saving"):
            patch.setattr(checkout_module, "write_saved", die)
        with box.open(mounting=True):
            write(box.root, "README.md", "agent\n")
            write(box.root, "new", "agent")
            if when.endswith("working"):
                die()
            patch.setattr(checkout_module, "settle", die)


def assert_fetched(box: Box, sha: str, when: str) -> None:
    assert git(box.root, "rev-parse", "HEAD") == sha, when
    assert git(box.root, "status", "--porcelain", "--ignored") == "", when
    assert (box.root / "counter").read_text().startswith("after"), when
    assert (box.root / "README.md").read_text() == "hello\n", when
    assert len(git(box.root, "log", "--oneline").splitlines()) >= 20, when
    git(box.root, "fsck", "--connectivity-only")


@pytest.mark.parametrize("include", [True, False], ids=["include", "url"])
@pytest.mark.parametrize("clean", [True, False], ids=["docker", "shell"])
def test_the_runners_next_fetch_works(
    tmp_path: Path, upstream: Path, *, include: bool, clean: bool
) -> None:
    for number, when in enumerate((*STEPS, *MOUNTED)):
        how = {"include": include, "clean_config": clean}
        runner, box = checked_out(tmp_path / str(number), upstream, **how)
        assert wait_end(fork(partial(killed, box, when))) == -signal.SIGKILL, when
        write(upstream, "counter", f"after {when}\n")
        sha = commit(upstream)
        runner.get_sources(sha)
        assert_fetched(box, sha, when)
        runner.get_sources(sha)
        after = Box(box.root, box.private, sha)
        try:
            with after.open() as checkout:
                assert checkout.change().empty
        except NightshiftError as error:  # what the runner fetched into is not trusted
            assert "start the job again" in error.message, when
            runner.get_sources(sha)
            with after.open() as checkout:
                assert checkout.change().empty
        assert_fetched(box, sha, when)
        shutil.rmtree(tmp_path / str(number))


def test_without_a_remote_it_would_not(
    tmp_path: Path, upstream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a runner that keeps configurations finds no credentials in ours."""
    monkeypatch.setattr(throwaway, "REMOTE", "")
    runner, box = checked_out(tmp_path, upstream, clean_config=False)
    assert wait_end(fork(partial(killed, box, "covered"))) == -signal.SIGKILL
    with pytest.raises(subprocess.CalledProcessError):
        runner.get_sources(box.base)


@pytest.fixture
def open_place() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_where_the_tree_is_the_agents_users(open_place: Path, upstream: Path) -> None:
    """The uid tier: the helper of the Docker executor fetches as root."""

    def killed_night(box: Box) -> None:
        user = uid.pick()
        assert user
        with given(box, user):
            script = "echo agent > README.md; git add -A; echo x > new; rm -r src"
            as_user(user, "/bin/sh", "-c", script, cwd=box.root)
            die()

    runner, box = checked_out(open_place, upstream)
    (open_place / "builds").chmod(0o755)
    box.root.chmod(0o755)
    assert wait_end(fork(partial(killed_night, box))) == -signal.SIGKILL
    write(upstream, "counter", "after\n")
    sha = commit(upstream)
    runner.get_sources(sha)
    assert git(box.root, "-c", "safe.directory=*", "rev-parse", "HEAD") == sha
    assert git(box.root, "-c", "safe.directory=*", "status", "--porcelain", "--ignored") == ""
