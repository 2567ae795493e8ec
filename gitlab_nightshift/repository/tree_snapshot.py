"""A stat snapshot of the checkout, made without reading a file or following a link.

The ctime reveals a file that was rewritten with the same size and mtime.
"""

import contextlib
import os
import stat
from collections.abc import Container, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from gitlab_nightshift.system.file_names import list_parents
from gitlab_nightshift.system.openat import open_folder, open_parent, set_mode

TOP = ""
DEEPEST = 200
"""Levels of folders: one open descriptor for each (``_walk``)."""


class EntryKind(StrEnum):
    """The type of an entry. ``other`` is a device, FIFO, socket, or a folder nested too deep."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


class TreeEntry(NamedTuple):
    """The result of ``lstat`` for a path, in its order: a tree may have a million of them.
    ``st_mode`` is type and mode; without a type it is a folder nested too deep. ``target`` is a
    link's text. Sizes are bytes."""

    st_mode: int
    inode: int
    device: int
    nlink: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ctime_ns: int
    target: str

    @property
    def kind(self) -> EntryKind:
        """Its type."""
        return _KINDS.get(stat.S_IFMT(self.st_mode), EntryKind.OTHER)

    @property
    def mode(self) -> int:
        """Its mode, without the type."""
        return stat.S_IMODE(self.st_mode)


Snapshot = Mapping[str, TreeEntry]


class TooManyEntriesError(Exception):
    """There are more entries than the limit."""


def scan(
    root: Path, *, only: Container[str] | None = None, limit: int | None = None
) -> dict[str, TreeEntry]:
    """Every path below ``root`` except its ``.git``, and the top itself as "".

    With ``only``, other folders than these are listed but not entered. Folders of ours whose mode
    forbids reading are opened for a moment, and get their mode back. Raises TooManyEntriesError
    beyond ``limit`` entries, OSError if ``root`` cannot be read.
    """
    top = _build_entry(os.lstat(root), "")
    found = {TOP: top}
    with _enter_folder(root, None, top) as fd:
        _walk(fd, "", found, only, limit, 0)
    return found


def rescan(root: Path, old: Snapshot, paths: Iterable[str]) -> dict[str, TreeEntry]:
    """``old``, with new entries for these paths and the folders above them."""
    now = dict(old)
    holding = {path.rpartition("/")[0] for path in paths}
    above = {folder for inner in holding for folder in list_parents(inner)}
    for path in {*paths, *holding, *above}:
        now.pop(path, None)
        with contextlib.suppress(OSError):
            now[path] = _read_entry(root, path)
    return now


def _read_entry(root: Path, path: str) -> TreeEntry:
    if path == TOP:
        return _build_entry(os.lstat(root), "")
    with open_parent(root, path) as (fd, name):
        status = os.lstat(name, dir_fd=fd)
        target = os.readlink(name, dir_fd=fd) if stat.S_ISLNK(status.st_mode) else ""
    return _build_entry(status, target)


def _walk(
    fd: int,
    prefix: str,
    found: dict[str, TreeEntry],
    only: Container[str] | None,
    limit: int | None,
    depth: int,
) -> None:
    folders: list[tuple[str, TreeEntry]] = []
    with os.scandir(fd) as listed:
        for item in listed:
            name = item.name
            if prefix or name != ".git":
                found[prefix + name] = entry = _read_dir_entry(item, fd)
                if stat.S_ISDIR(entry.st_mode):
                    folders.append((name, entry))
    if limit is not None and len(found) > limit:
        raise TooManyEntriesError
    # After the scan is closed: one descriptor for each level, not two.
    for name, entry in folders:
        if only is not None and prefix + name not in only:
            continue
        if depth >= DEEPEST:
            found[prefix + name] = entry._replace(st_mode=entry.mode)
            continue
        with contextlib.suppress(PermissionError), _enter_folder(name, fd, entry) as below:
            _walk(below, f"{prefix}{name}/", found, only, limit, depth + 1)


@contextlib.contextmanager
def _enter_folder(name: str | Path, dir_fd: int | None, entry: TreeEntry) -> Iterator[int]:
    """Open a folder for listing; if its mode had to be changed for that, it is restored."""
    if entry.mode & stat.S_IRWXU == stat.S_IRWXU:
        with open_folder(name, dir_fd) as fd:
            yield fd
        return
    try:
        with open_folder(name, dir_fd) as fd:
            yield fd
    finally:
        with contextlib.suppress(PermissionError):  # another user's, so we never changed it
            set_mode(name, dir_fd, entry.mode)


def _read_dir_entry(item: "os.DirEntry[str]", fd: int) -> TreeEntry:
    status = item.stat(follow_symlinks=False)
    target = os.readlink(item.name, dir_fd=fd) if stat.S_ISLNK(status.st_mode) else ""
    return _build_entry(status, target)


_KINDS = {
    stat.S_IFREG: EntryKind.FILE,
    stat.S_IFDIR: EntryKind.FOLDER,
    stat.S_IFLNK: EntryKind.LINK,
}


def _build_entry(s: os.stat_result, target: str) -> TreeEntry:
    return TreeEntry(*s[:7], s.st_mtime_ns, s.st_ctime_ns, target)


def is_unchanged(old: TreeEntry | None, new: TreeEntry | None) -> bool:
    """True if a path was not changed since. For a folder only kind, mode and owner count: its times
    change with its content."""
    if old == new:
        return True
    if old is None or new is None or old.kind is not EntryKind.FOLDER:
        return False
    return (old.st_mode, old.uid, old.gid) == (new.st_mode, new.uid, new.gid)


def is_restored(old: TreeEntry, new: TreeEntry | None) -> bool:
    """True if a restored file or link is as before, except for its owner, which only root can set,
    and the ctime and inode, which nobody can."""
    if new is None:
        return False
    size = (old.size, old.mtime_ns, old.target) == (new.size, new.mtime_ns, new.target)
    bits = 0o7777 if read_owner(old) == read_owner(new) else 0o777  # setuid goes with the owner
    return size and old.kind is new.kind and (old.mode ^ new.mode) & bits == 0


def read_owner(entry: TreeEntry) -> tuple[int, int]:
    """User and group."""
    return entry.uid, entry.gid


def find_differing_paths(old: Snapshot, new: Snapshot) -> list[str]:
    """The paths that are new, deleted or changed, sorted: a folder comes before its content."""
    # Equality first: of a million entries nearly all are equal.
    unequal = [path for path, entry in new.items() if old.get(path) != entry]
    changed = [path for path in unequal if not is_unchanged(old.get(path), new[path])]
    return sorted((*changed, *(old.keys() - new.keys())))
