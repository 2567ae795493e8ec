"""The stat snapshot: complete, quick, and not fooled."""

import os
from pathlib import Path

import pytest

from gitlab_nightshift.repository.tree_snapshot import (
    EntryKind,
    TooManyEntriesError,
    find_differing_paths,
    is_restored,
    scan,
)
from tests.repository.tools import listing, remove_all, write
from tests.system.test_openat import deep


def test_everything_but_the_top_git_is_told(tmp_path: Path) -> None:
    write(tmp_path, ".git/config", "x")
    write(tmp_path, "sub/.git/config", "x")
    write(tmp_path, "run", "x", 0o755)
    (tmp_path / "link").symlink_to("no\nwhere")
    os.mkfifo(tmp_path / "fifo")
    found = scan(tmp_path)
    assert {path: entry.kind for path, entry in found.items()} == {
        "": EntryKind.FOLDER,
        "sub": EntryKind.FOLDER,
        "sub/.git": EntryKind.FOLDER,
        "sub/.git/config": EntryKind.FILE,
        "run": EntryKind.FILE,
        "link": EntryKind.LINK,
        "fifo": EntryKind.OTHER,
    }
    assert (found["run"].mode, found["run"].size) == (0o755, 1)
    assert found["link"].target == "no\nwhere"


def test_links_are_not_entered(tmp_path: Path) -> None:
    write(tmp_path, "outside/file")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    assert set(scan(tmp_path / "tree")) == {"", "link"}


def test_closed_folders_are_read_and_left_closed(tmp_path: Path) -> None:
    write(tmp_path, "a/b/file")
    for folder, mode in (("a/b", 0o000), ("a", 0o300)):
        (tmp_path / folder).chmod(mode)
    before = listing(tmp_path)
    found = scan(tmp_path)
    assert set(found) == {"", "a", "a/b", "a/b/file"}
    assert (found["a"].mode, found["a/b"].mode) == (0o300, 0o000)
    assert listing(tmp_path) == before
    remove_all(tmp_path)


def test_too_deep_to_have_a_path(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    deep(root, 400)
    deepest = max(scan(root).items(), key=lambda item: len(item[0]))
    assert deepest[1].kind is EntryKind.OTHER


def test_only_known_folders_are_entered(tmp_path: Path) -> None:
    write(tmp_path, "known/file")
    write(tmp_path, "new/file")
    assert set(scan(tmp_path, only={"", "known"})) == {"", "known", "known/file", "new"}


def test_a_limit_is_kept(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, f"{number}")
    with pytest.raises(TooManyEntriesError):
        scan(tmp_path, limit=20)
    assert len(scan(tmp_path, limit=21)) == 21


def test_same_size_and_time_are_given_away(tmp_path: Path) -> None:
    file = write(tmp_path, "file", "old")
    before = scan(tmp_path)
    status = file.stat()
    file.write_text("new")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = scan(tmp_path)
    assert find_differing_paths(before, after) == ["file"]
    assert is_restored(before["file"], after["file"])


def test_differing_tells_new_gone_and_changed(tmp_path: Path) -> None:
    for name in ("gone", "kept", "mode", "kind"):
        write(tmp_path, f"d/{name}", "x")
    before = scan(tmp_path)
    (tmp_path / "d/gone").unlink()
    (tmp_path / "d/mode").chmod(0o755)
    (tmp_path / "d/kind").unlink()
    (tmp_path / "d/kind").mkdir()
    write(tmp_path, "d/new")
    assert find_differing_paths(before, scan(tmp_path)) == ["d/gone", "d/kind", "d/mode", "d/new"]
