"""Put back on a disk that is full: what an agent made goes first, in each place where it may be."""

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


def in_a_tracked_file(root: Path) -> None:
    fill(root, "tracked")


def in_an_untracked_file(root: Path) -> None:
    fill(root, "untracked")


def in_git(root: Path) -> None:
    (root / "tracked").unlink()
    fill(root / ".git/objects")


def in_git_alone(root: Path) -> None:
    fill(root / ".git")


def in_new_folders(root: Path) -> None:
    (root / "tracked").write_bytes(b"")
    (root / "a/b/c").mkdir(parents=True)
    fill(root / "a/b/c")


def by_number(root: Path) -> None:
    (root / "tracked").unlink()
    (root / "many").mkdir()
    try:
        for number in range(10_000):
            (root / "many" / str(number)).touch()
    except OSError:
        return
    raise AssertionError("there is no end to it")


PLACES: list[Callable[[Path], None]] = [
    in_a_tracked_file,
    in_an_untracked_file,
    in_git,
    in_git_alone,
    in_new_folders,
    by_number,
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "12m", 2000) as folder:
        yield folder


@contextmanager
def opened(disk: Path) -> Iterator[Checkout]:
    """A checkout of its own on the disk."""
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


@each("filled", PLACES)
def test_a_full_checkout_is_put_back(filled: Callable[[Path], None], disk: Path) -> None:
    with opened(disk) as checkout:
        root = checkout.path
        filled(root)
        assert checkout.restore() == ()
        assert sorted(path.name for path in root.iterdir()) == [".git", "tracked", "untracked"]
        assert (root / "tracked").read_bytes() == (root / "untracked").read_bytes() == BIG
        assert git(root, "status", "--porcelain", "-uno") == ""
        (root / "after").write_bytes(BIG)


@each("filled", [in_a_tracked_file, in_git])
def test_without_a_look_at_the_disk_it_would_not_be(
    filled: Callable[[Path], None], disk: Path
) -> None:
    """The control."""
    with opened(disk) as checkout, pytest.MonkeyPatch.context() as patch:
        filled(checkout.path)
        patch.setattr(Disks, "find_full", lambda _: None)
        patch.setattr(restore, "is_disk_full", lambda _: False)
        assert checkout.restore() == ("tracked",)


def test_a_change_that_cannot_be_stored_is_told_as_that(disk: Path, tmp_path: Path) -> None:
    """Git, in the private repository, finds the disk full when it adds the agent's files."""
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
