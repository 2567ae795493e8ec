"""A snapshot of a tree finds every entry and every change."""

import os
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from gitlab_nightshift.repository.tree_snapshot import (
    NOTHING,
    EntryKind,
    Snapshot,
    TooManyEntriesError,
    compare,
    is_restored,
    is_unchanged,
    rescan,
    scan,
)
from tests.repository.tools import listing, remove_all, write
from tests.system.test_openat import nest_folders


def test_a_scan_finds_everything_but_the_top_git(tmp_path: Path) -> None:
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


def test_too_deep_folders_are_not_entered(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    nest_folders(root, 400)
    deepest = max(scan(root).items(), key=lambda item: len(item[0]))
    assert deepest[1].kind is EntryKind.OTHER


def test_only_known_folders_are_entered(tmp_path: Path) -> None:
    write(tmp_path, "known/file")
    write(tmp_path, "new/file")
    found = compare(tmp_path, NOTHING, only={"", "known"})
    assert set(found) == {"", "known", "known/file", "new"}


def test_a_comparison_ends_at_the_limit(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, f"{number}")
    with pytest.raises(TooManyEntriesError):
        compare(tmp_path, NOTHING, limit=20)
    assert len(compare(tmp_path, NOTHING, limit=21)) == 21


def test_a_rewrite_with_the_same_size_and_time_is_found(tmp_path: Path) -> None:
    file = write(tmp_path, "file", "old")
    before = scan(tmp_path)
    status = file.stat()
    file.write_text("new")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = compare(tmp_path, before)
    assert after.list_changed() == ["file"]
    assert is_restored(before["file"], after["file"])


@pytest.mark.parametrize("seconds", [15_000_000_000, -15_000_000_000])
def test_a_time_beyond_64_bits_of_nanoseconds_is_read_as_the_last(
    seconds: int, tmp_path: Path
) -> None:
    file = write(tmp_path, "file", "text")
    os.utime(file, (0, seconds))
    known = scan(tmp_path)
    assert compare(tmp_path, known).list_changed() == []
    file.write_text("else")
    os.utime(file, (0, seconds))
    assert compare(tmp_path, known).list_changed() == ["file"]
    now = compare(tmp_path, known)
    assert dict(rescan(tmp_path, now, ["file"])) == dict(now)


def test_changed_paths_are_new_gone_and_changed_ones(tmp_path: Path) -> None:
    for name in ("gone", "kept", "mode", "kind"):
        write(tmp_path, f"d/{name}", "x")
    before = scan(tmp_path)
    (tmp_path / "d/gone").unlink()
    (tmp_path / "d/mode").chmod(0o755)
    (tmp_path / "d/kind").unlink()
    (tmp_path / "d/kind").mkdir()
    write(tmp_path, "d/new")
    assert compare(tmp_path, before).list_changed() == ["d/gone", "d/kind", "d/mode", "d/new"]


def test_an_unchanged_tree_takes_no_memory(tmp_path: Path) -> None:
    write(tmp_path, "a/b/file")
    before = scan(tmp_path)
    same = compare(tmp_path, before)
    assert (same.differing, same.gone) == ({}, set())
    assert (dict(same), len(same)) == (dict(before), len(before))


def _change_somewhere(root: Path, random: Random) -> None:
    """A change of any kind at any place: written, removed, renamed, of another kind or mode."""
    paths = sorted(path for path in root.rglob("*") if not path.is_symlink())
    folders = [root, *(path for path in paths if path.is_dir())]
    new = random.choice(folders) / f"{random.choice('abc')}{random.randrange(4)}"
    kind = random.randrange(6)
    if kind < 2 and not new.is_dir():
        new.unlink(missing_ok=True)
        new.write_text(f"{random.random()}")
    elif kind == 2 and not os.path.lexists(new):
        new.mkdir()
    elif kind == 3 and not os.path.lexists(new):
        new.symlink_to("nowhere")
    elif kind == 4 and paths and not os.path.lexists(new):
        old = random.choice(paths)
        if not new.is_relative_to(old):
            old.rename(new)
    elif paths:
        old = random.choice(paths)
        if old.is_dir():
            rmtree(old)
        else:
            old.chmod(0o600)


def _find_differing(old: Snapshot, new: Snapshot) -> list[str]:
    changed = (path for path, entry in new.items() if not is_unchanged(old.get(path), entry))
    return sorted((*changed, *(old.keys() - new.keys())))


def test_a_compared_tree_equals_a_scan(tmp_path: Path) -> None:
    random = Random(20261126)
    known = scan(tmp_path)
    for _ in range(300):
        for _ in range(random.randrange(4)):
            _change_somewhere(tmp_path, random)
        now, compared = scan(tmp_path), compare(tmp_path, known)
        assert dict(compared) == now
        assert (len(compared), set(compared)) == (len(now), set(now))
        assert compared.list_changed() == _find_differing(known, now)
        assert not compared.gone & now.keys()
        _change_somewhere(tmp_path, random)
        every = {*now, *scan(tmp_path)}
        assert dict(rescan(tmp_path, compared, every)) == scan(tmp_path)
        if random.randrange(3) == 0:
            known = scan(tmp_path)
