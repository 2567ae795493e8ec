"""A checkout is restored on a full disk: the agent's files are removed first, wherever they are."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitlab_nightshift.repository import restore
from gitlab_nightshift.repository.checkout import Checkout, open_checkout
from gitlab_nightshift.repository.disk_space import Disks
from gitlab_nightshift.system.openat import remove_tree
from tests.repository.tools import git, repository
from tests.support.disks import fill, small_disk
from tests.support.tables import each

BIG = b"x" * 2_000_000


def fill_tracked_file(root: Path) -> None:
    fill(root, "tracked")


def fill_untracked_file(root: Path) -> None:
    fill(root, "untracked")


def fill_objects(root: Path) -> None:
    (root / "tracked").unlink()
    fill(root / ".git/objects")


def fill_dot_git(root: Path) -> None:
    fill(root / ".git")


def fill_new_folders(root: Path) -> None:
    (root / "tracked").write_bytes(b"")
    (root / "a/b/c").mkdir(parents=True)
    fill(root / "a/b/c")


def use_all_inodes(root: Path) -> None:
    (root / "tracked").unlink()
    (root / "many").mkdir()
    try:
        for number in range(10_000):
            (root / "many" / str(number)).touch()
    except OSError:
        return
    raise AssertionError("there is no end to it")


WAYS_TO_FILL: list[Callable[[Path], None]] = [
    fill_tracked_file,
    fill_untracked_file,
    fill_objects,
    fill_dot_git,
    fill_new_folders,
    use_all_inodes,
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "12m", 2000) as folder:
        yield folder


@contextmanager
def open_new_checkout(disk: Path) -> Iterator[Checkout]:
    """A new checkout on the disk."""
    root = Path(tempfile.mkdtemp(prefix="builds-", dir=disk)) / "shop"
    private = Path(tempfile.mkdtemp(prefix="private-", dir=disk.parent))
    repository(root, {"tracked": BIG})
    (root / "untracked").write_bytes(BIG)
    path = os.environ["PATH"]
    try:
        with open_checkout(
            root, output_dir="nightshift", private=private, search_path=path, run_id="1", warn=print
        ) as checkout:
            yield checkout
    finally:
        remove_tree(root.parent)


@each("fill_disk", WAYS_TO_FILL)
def test_a_checkout_is_restored_on_a_full_disk(
    fill_disk: Callable[[Path], None], disk: Path
) -> None:
    with open_new_checkout(disk) as checkout:
        root = checkout.path
        fill_disk(root)
        assert checkout.restore() == ()
        assert sorted(path.name for path in root.iterdir()) == [".git", "tracked", "untracked"]
        assert (root / "tracked").read_bytes() == (root / "untracked").read_bytes() == BIG
        assert git(root, "status", "--porcelain", "-uno") == ""
        (root / "after").write_bytes(BIG)


@each("fill_disk", [fill_tracked_file, fill_objects])
def test_without_checks_of_the_disk_it_is_not_restored(
    fill_disk: Callable[[Path], None], disk: Path
) -> None:
    """The control."""
    with open_new_checkout(disk) as checkout, pytest.MonkeyPatch.context() as patch:
        fill_disk(checkout.path)
        patch.setattr(Disks, "find_full", lambda _: None)
        patch.setattr(restore, "is_disk_full", lambda _: False)
        assert checkout.restore() == ("tracked",)


def test_a_change_that_cannot_be_stored_is_refused(disk: Path, tmp_path: Path) -> None:
    """The disk is full when git adds the agent's files to the private repository."""
    root, private = tmp_path / "shop", disk / "private"
    private.mkdir()
    repository(root, {"tracked": b"old"})
    path = os.environ["PATH"]
    with open_checkout(
        root, output_dir="nightshift", private=private, search_path=path, run_id="1", warn=print
    ) as checkout:
        (root / "tracked").write_bytes(os.urandom(100_000))
        filling = fill(disk)
        (refusal,) = checkout.capture().refusals
        assert str(refusal) == "the change cannot be stored: the disk was full"
        filling.unlink()
        assert checkout.capture().size.files == ("tracked",)
