"""The path of a checkout's state folder, and its note."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository.state_folder import (
    choose_folder,
    list_candidate_folders,
    read_note,
)
from tests.repository.conftest import Box, new_repository
from tests.repository.tools import listing, write

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Box]:
    """A checkout that is a mount point."""
    root = tmp_path / "builds" / "shop"
    root.mkdir(parents=True)
    (tmp_path / "private").mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "tests", str(root)], check=True)
    try:
        new_repository(root / "made")
        for path in (root / "made").iterdir():
            path.rename(root / path.name)
        (root / "made").rmdir()
        yield Box(root, tmp_path / "private", "")
    finally:
        subprocess.run(["umount", str(root)], check=False)


def test_the_state_folder_is_beside_the_checkout(box: Box) -> None:
    beside, spare = list_candidate_folders(box.root, box.private)
    for moving in (True, False):
        assert choose_folder(box.root, box.private, moving=moving) == beside
    assert spare.parent == box.private
    assert list_candidate_folders(box.root.parent, box.private)[1] != spare, (
        "each checkout has its own"
    )


@needs_root
def test_a_mount_point_needs_a_folder_on_the_same_mount(mounted: Box) -> None:
    """Without mounts, .git has to be moved within its file system, such as to a TMPDIR."""
    before = listing(mounted.root, git_too=True)
    with mounted.open(use_mounts=True) as checkout:
        write(mounted.root, "README.md", "agent\n")
        assert [file.path for file in checkout.capture().files] == ["README.md"]
        assert mounted.beside == {"shop.nightshift"}
        with pytest.raises(NightshiftError, match="another night"), mounted.open(use_mounts=True):
            pass
    assert listing(mounted.root, git_too=True) == before
    assert not mounted.beside
    refused = pytest.raises(
        NightshiftError, match="Let TMPDIR name a folder there, or install bubbl"
    )
    with refused as caught, mounted.open():
        pass
    assert caught.value.code is Code.CONFIG
    assert choose_folder(mounted.root, mounted.root, moving=True).parent == mounted.root


@needs_root
def test_a_bind_mount_is_another_mount(box: Box, tmp_path: Path) -> None:
    """It has the same device, but nothing can be renamed out of it."""
    shown = tmp_path / "shown"
    shown.mkdir()
    subprocess.run(["mount", "--bind", str(box.root), str(shown)], check=True)
    try:
        assert shown.stat().st_dev == tmp_path.stat().st_dev
        with pytest.raises(OSError, match="Invalid cross-device link"):
            (shown / ".git").rename(tmp_path / "moved")
        with pytest.raises(NightshiftError, match="has to be moved"):
            choose_folder(shown, tmp_path, moving=True)
    finally:
        subprocess.run(["umount", str(shown)], check=True)


def test_an_unreadable_note_is_none(tmp_path: Path) -> None:
    """If work is not confined, it could have written the note."""
    for text in ("[" * 100_000, "{}", "[]", '{"version": 4}', "\xff"):
        (tmp_path / "note.json").write_text(text)
        assert read_note(tmp_path) is None, text[:20]
