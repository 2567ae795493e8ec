"""After a kill at any line that changes the file system, the next start and the runner's fetch
work, wherever the real ``.git`` was."""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository import state_folder
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.checkout_restore import repair
from gitlab_nightshift.repository.state_folder import list_candidate_folders
from gitlab_nightshift.sandbox import uid_tier
from gitlab_nightshift.sandbox.tiers import SandboxUser
from tests.repository.conftest import Box, new_repository
from tests.repository.test_checkout_restore import checked_out
from tests.repository.test_git_mask import timeless
from tests.repository.test_owners import open_for_user, owners
from tests.repository.tools import Listing, commit, die, fork, git, gone, listing, wait_end, write
from tests.sandbox.tools import open_folder
from tests.support.kills import killed_at_each_place
from tests.support.runner import Runner

WAYS = ["mounted", "moved", "moved to TMPDIR", "another user"]
"""What happens to the real ``.git`` and to the tree's owner during a night."""
MOVING = ("repository/state_folder.py", "repository/git_mask.py")
"""The modules that depend on the state folder's path."""


class Night:
    """A night in a runner's workspace, in one of ``WAYS``."""

    def __init__(self, folder: Path, upstream: Path, way: str) -> None:
        self.way, self.upstream, self.folder = way, upstream, folder
        self.runner: Runner
        self.box: Box
        self.runner, self.box = checked_out(folder, upstream)
        for path in (self.box.root.parent, self.box.root):
            path.chmod(0o755)
        self.user: SandboxUser | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[Checkout]:
        if self.user:
            with open_for_user(self.box, self.user) as checkout:
                yield checkout
        else:
            with self.box.open(use_mounts=self.way == "mounted") as checkout:
                yield checkout

    def go(self, *, committing: bool = False, then: Callable[[], object] = lambda: None) -> None:
        """Run a night whose agent changes files and, if ``committing``, uses the throw-away."""
        root = self.box.root
        with self.open() as checkout:
            write(root, "README.md", "agent\n")
            gone(root, "src/app.py")
            os.chown(write(root, "new/file", "agent"), *(checkout.path.stat()[4:6]))
            if committing and self.way != "mounted":
                git(root, "-c", "safe.directory=*", "commit", "-qam", "mine")
                write(root, ".git/index.lock")
            then()

    def state(self) -> tuple[Listing, dict[str, tuple[int, int, int]]]:
        """Everything but the times of the top folder, which a rename of ``.git`` changes."""
        return {**listing(self.box.root, git_too=True), b"": ()}, owners(self.box.root)

    def left(self) -> set[str]:
        """State folders, beside the checkout or in TMPDIR."""
        found = {path.name for path in self.folder.iterdir()} | self.box.beside
        return found - {"builds", "private", "upstream", "shop.tmp"}

    def git(self, *args: str) -> str:
        return git(self.box.root, "-c", "safe.directory=*", *args)


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    new_repository(tmp_path / "upstream")
    return tmp_path / "upstream"


@pytest.fixture(params=WAYS)
def night(
    request: pytest.FixtureRequest, upstream: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Night]:
    way = str(request.param)
    if way == "moved to TMPDIR":

        def choose_in_tmpdir(checkout: Path, folder: Path, *, moving: bool) -> Path:
            assert moving
            return list_candidate_folders(checkout, folder)[1]

        monkeypatch.setattr(state_folder, "choose_folder", choose_in_tmpdir)
    if way == "another user" and os.geteuid() != 0:
        pytest.skip("needs root")
    with open_folder() as folder:
        made = Night(folder, upstream, way)
        if way == "another user":
            made.user = uid_tier.reserve_user()
            assert made.user
        yield made
        if made.user:
            uid_tier.release_user(made.user)


def test_the_next_start_restores_everything(night: Night) -> None:
    box = night.box
    write(box.root, ".git/info/exclude", "mine/\n")
    write(box.root, "mine/untracked", "mine", 0o640)
    write(box.root, "untracked", "mine")
    (box.root / "mine/link").symlink_to("untracked")
    before = night.state()
    within = MOVING if night.way == WAYS[2] else ""
    for place in killed_at_each_place(night.go, box.private, within=within, last=True):
        box.repair()
        assert night.state() == before, place
        assert not night.left(), place
        assert not box.repair(), place


@pytest.mark.parametrize("night", ["mounted", "moved", "another user"], indirect=True)
def test_the_next_start_finishes_a_killed_repair(night: Night) -> None:
    before = night.state()

    def kill() -> None:
        assert wait_end(fork(partial(night.go, then=die))) == -signal.SIGKILL

    for place in killed_at_each_place(night.box.repair, night.box.private, prepare=kill):
        night.box.repair()
        assert night.state() == before, place
        assert not night.left(), place


@pytest.mark.parametrize("night", ["moved", "another user"], indirect=True)
def test_an_agents_commit_is_undone_in_the_same_job(night: Night) -> None:
    """The control: for a later start it may be anybody's commit."""
    before = timeless(night.box.root), owners(night.box.root)
    go = partial(night.go, committing=True, then=die)
    assert wait_end(fork(go)) == -signal.SIGKILL
    private, path = night.box.private, os.environ["PATH"]
    assert repair(night.box.root, private=private, search_path=path, unused_since_run=True)
    assert (timeless(night.box.root), owners(night.box.root)) == before
    assert not night.left()
    assert wait_end(fork(go)) == -signal.SIGKILL
    with pytest.raises(NightshiftError, match=r"throw-away \.git was used since"):
        night.box.repair()
    assert not (night.box.root / "src/app.py").exists()


@pytest.mark.parametrize("night", ["moved", "another user"], indirect=True)
def test_the_runners_fetch_works(night: Night) -> None:
    """It depends only on what ``.git`` is, so it is tried at the lines that change that. The next
    night begins like any other."""
    runner, box = night.runner, night.box
    go = partial(night.go, committing=True)
    for place in killed_at_each_place(go, box.private, within="repository/git_mask.py", last=True):
        write(night.upstream, "counter", f"after {place}\n")
        sha = commit(night.upstream)
        runner.get_sources(sha)
        _assert_fetched(night, sha, place)
        try:
            box.repair()
        except NightshiftError as error:  # what the runner fetched into is not trusted
            assert "start the job again" in error.message, place
            runner.get_sources(sha)
        _assert_fetched(night, sha, place)
        for path in [*box.root.parent.glob("*-left"), *night.folder.glob("*-left")]:
            shutil.rmtree(path)
        assert not night.left(), place


def _assert_fetched(night: Night, sha: str, place: str) -> None:
    assert night.git("rev-parse", "HEAD") == sha, place
    assert night.git("status", "--porcelain", "--ignored") == "", place
    assert (night.box.root / "README.md").read_text() == "hello\n", place
    night.git("fsck", "--connectivity-only")
