"""A stat snapshot of the checkout, made without reading a file or following a link.

The ctime reveals a file that was rewritten with the same size and mtime.
"""

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
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
        """The entry's type."""
        return _KINDS.get(stat.S_IFMT(self.st_mode), EntryKind.OTHER)

    @property
    def mode(self) -> int:
        """The entry's mode, without the type."""
        return stat.S_IMODE(self.st_mode)


Snapshot = Mapping[str, TreeEntry]


class TooManyEntriesError(Exception):
    """There are more entries than the limit."""


class ComparedTree(Mapping[str, TreeEntry]):
    """A tree as it is now: an earlier snapshot, ``known``, and what differs from it. ``unequal``
    are the entries that are new or not the same, ``gone`` the paths that are missing.

    Of a million files an agent changes ten: the others take no memory of their own.
    """

    def __init__(
        self, known: Snapshot, unequal: Mapping[str, TreeEntry], gone: AbstractSet[str]
    ) -> None:
        self.known, self.unequal, self.gone = known, unequal, gone

    def __getitem__(self, path: str) -> TreeEntry:
        if path in self.unequal:
            return self.unequal[path]
        if path in self.gone:
            raise KeyError(path)
        return self.known[path]

    def __iter__(self) -> Iterator[str]:
        yield from (path for path in self.known if path not in self.gone)
        yield from (path for path in self.unequal if path not in self.known)

    def __len__(self) -> int:
        return len(self.known) - len(self.gone) + len(self.unequal.keys() - self.known.keys())

    def list_changed(self) -> list[str]:
        """The paths that are new, deleted or changed, sorted: a folder comes before its content."""
        known = self.known
        changed = (p for p, entry in self.unequal.items() if not is_unchanged(known.get(p), entry))
        return sorted((*changed, *self.gone))


def scan(root: Path) -> Snapshot:
    """Every path below ``root`` except its ``.git``, and the top itself as "".

    Folders of ours whose mode forbids reading are opened for a moment, and get their mode back.
    Raises OSError if ``root`` cannot be read.
    """
    return compare(root, {}).unequal


def compare(
    root: Path, known: Snapshot, *, only: Container[str] | None = None, limit: int | None = None
) -> ComparedTree:
    """Compare every path that ``scan`` would find with an earlier snapshot.

    With ``only``, other folders than these are listed but not entered. Raises TooManyEntriesError
    beyond ``limit`` entries, OSError if ``root`` cannot be read.
    """
    top = _build_entry(os.lstat(root), "")
    walk = _Walk(known, only, limit)
    if known.get(TOP) != top:
        walk.unequal[TOP] = top
    with _enter_folder(root, None, top) as fd:
        walk.list_folder(fd, "", 0)
    return ComparedTree(known, walk.unequal, _find_gone(root, known, walk))


def rescan(root: Path, tree: ComparedTree, paths: Iterable[str]) -> ComparedTree:
    """The tree, after a new look at these paths and the folders above them."""
    unequal, gone = dict(tree.unequal), set(tree.gone)
    holding = {path.rpartition("/")[0] for path in paths}
    above = {folder for inner in holding for folder in list_parents(inner)}
    for path in {*paths, *holding, *above}:
        unequal.pop(path, None)
        gone.discard(path)
        entry = _find_entry(root, path)
        if entry is None:
            gone |= {path} & tree.known.keys()
        elif entry != tree.known.get(path):
            unequal[path] = entry
    return ComparedTree(tree.known, unequal, gone)


def _find_entry(root: Path, path: str) -> TreeEntry | None:
    with contextlib.suppress(OSError):
        return _read_entry(root, path)
    return None


def _read_entry(root: Path, path: str) -> TreeEntry:
    if path == TOP:
        return _build_entry(os.lstat(root), "")
    with open_parent(root, path) as (fd, name):
        status = os.lstat(name, dir_fd=fd)
        target = os.readlink(name, dir_fd=fd) if stat.S_ISLNK(status.st_mode) else ""
    return _build_entry(status, target)


class _Walk:
    """``found`` has, by folder, how many known paths were seen in it."""

    def __init__(self, known: Snapshot, only: Container[str] | None, limit: int | None) -> None:
        self.unequal: dict[str, TreeEntry] = {}
        self.found: dict[str, int] = {}
        self._known, self._only, self._left = known, only, limit

    def list_folder(self, fd: int, prefix: str, depth: int) -> None:
        """Compare a folder's entries, then those of the folders in it."""
        folders: list[tuple[str, TreeEntry]] = []
        found = listed = 0
        with os.scandir(fd) as items:
            for item in items:
                name = item.name
                if not prefix and name == ".git":
                    continue
                listed += 1
                entry, old = _read_dir_entry(item, fd), self._known.get(prefix + name)
                found += old is not None
                if entry != old:
                    self.unequal[prefix + name] = entry
                if stat.S_ISDIR(entry.st_mode):
                    folders.append((name, entry))
        self.found[prefix[:-1]] = found
        self._count(listed)
        # After the scan is closed: one descriptor for each level, not two.
        for name, entry in folders:
            if self._only is None or prefix + name in self._only:
                self._enter(fd, prefix + name, name, entry, depth)

    def _enter(self, fd: int, path: str, name: str, entry: TreeEntry, depth: int) -> None:
        if depth >= DEEPEST:
            self.unequal[path] = entry._replace(st_mode=entry.mode)
            return
        with contextlib.suppress(PermissionError), _enter_folder(name, fd, entry) as below:
            self.list_folder(below, f"{path}/", depth + 1)

    def _count(self, listed: int) -> None:
        if self._left is not None:
            self._left -= listed
            if self._left < 1:  # the top itself is an entry, too
                raise TooManyEntriesError


def _find_gone(root: Path, known: Snapshot, walk: _Walk) -> set[str]:
    """The known paths that were not seen: in folders in which fewer were seen than are known."""
    if not known or sum(walk.found.values()) + 1 == len(known):
        return set()
    counts = Counter(path.rpartition("/")[0] for path in known if path)
    fewer = {folder for folder, count in counts.items() if walk.found.get(folder) != count}
    missing = ((path, path.rpartition("/")[0]) for path in known if path)
    return {
        path
        for path, folder in missing
        if folder in fewer
        and path not in walk.unequal
        and (folder not in walk.found or _find_entry(root, path) is None)
    }


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
