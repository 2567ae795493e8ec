"""After a kill of the whole container at any step, the runner's next fetch works."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository import checkout_restore, prepared_checkout, throwaway_git
from gitlab_nightshift.sandbox import uid_tier
from tests.repository.conftest import Box, new_repository
from tests.repository.test_git_mask import commit_often, run_killed_night
from tests.repository.test_owners import as_user, open_for_user
from tests.repository.tools import commit, die, fork, git, wait_end, write
from tests.sandbox.tools import open_folder
from tests.support import kept
from tests.support.runner import Runner

URL = "https://gitlab.example.org/g/shop.git"
STEPS = ("saving", "between", "covered", "renewing", "uncovering", "releasing")
MOUNTED = ("mounted: saving", "mounted: working", "mounted: leaving")
AT_WORK = ("covered", "mounted: working")
CASES = [
    (when, include, include == (number % 2 == 0))
    for number, when in enumerate((*STEPS, *MOUNTED))
    for include in (True, False)
]
CASES += [(when, include, not clean) for when, include, clean in CASES if when in AT_WORK]
"""When it is killed, with credentials in a file beside the checkout or in its URL, and whether the
runner cleans its configuration (all but the shell executor). Where the runner meets our ``.git``:
all pairs of these; else each with each of the others once."""


@cache
def _long() -> Path:
    """A repository of many commits, made once."""
    root = Path(tempfile.mkdtemp(prefix="long-", dir=kept.folder), "shop")
    new_repository(root)
    commit_often(root, 25)
    return root


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    return shutil.copytree(_long(), tmp_path / "upstream")


def checked_out(folder: Path, upstream: Path, **how: bool) -> tuple[Runner, Box]:
    """A workspace as a runner prepares it for the night."""
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
        run_killed_night(box, when, partial(use_git, box))
        return
    with pytest.MonkeyPatch.context() as patch:
        if when.endswith("saving"):
            patch.setattr(prepared_checkout, "write_saved", die)
        with box.open(use_mounts=True):
            write(box.root, "README.md", "agent\n")
            write(box.root, "new", "agent")
            if when.endswith("working"):
                die()
            patch.setattr(checkout_restore, "restore_folder", die)


def assert_fetched(box: Box, sha: str) -> None:
    assert git(box.root, "rev-parse", "HEAD") == sha
    assert git(box.root, "status", "--porcelain", "--ignored") == ""
    assert (box.root / "counter").read_text() == "after\n"
    assert (box.root / "README.md").read_text() == "hello\n"
    assert len(git(box.root, "log", "--oneline").splitlines()) >= 20
    git(box.root, "fsck", "--connectivity-only")


@pytest.mark.parametrize(("when", "include", "clean"), CASES)
def test_the_runners_next_fetch_works(
    tmp_path: Path, upstream: Path, *, when: str, include: bool, clean: bool
) -> None:
    runner, box = checked_out(tmp_path, upstream, include=include, clean_config=clean)
    assert wait_end(fork(partial(killed, box, when))) == -signal.SIGKILL
    write(upstream, "counter", "after\n")
    sha = commit(upstream)
    runner.get_sources(sha)
    assert_fetched(box, sha)
    runner.get_sources(sha)
    after = Box(box.root, box.private, sha)
    try:
        with after.open() as checkout:
            assert checkout.capture().empty
    except NightshiftError as error:  # what the runner fetched into is not trusted
        assert "start the job again" in error.message
        runner.get_sources(sha)
        with after.open() as checkout:
            assert checkout.capture().empty
    assert_fetched(box, sha)


def test_without_a_remote_the_fetch_would_fail(
    tmp_path: Path, upstream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a runner that keeps configurations finds no credentials in ours."""
    monkeypatch.setattr(throwaway_git, "REMOTE", "")
    runner, box = checked_out(tmp_path, upstream, clean_config=False)
    assert wait_end(fork(partial(killed, box, "covered"))) == -signal.SIGKILL
    with pytest.raises(subprocess.CalledProcessError):
        runner.get_sources(box.base)


@pytest.fixture
def open_place() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_runners_next_fetch_works_in_another_users_tree(
    open_place: Path, upstream: Path
) -> None:
    """The uid tier: the helper of the Docker executor fetches as root."""

    def killed_night(box: Box) -> None:
        user = uid_tier.reserve_user()
        assert user
        with open_for_user(box, user):
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
