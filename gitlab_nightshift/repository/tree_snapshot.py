"""A stat snapshot of the checkout, made without reading a file or following a link.

The ctime reveals a file that was rewritten with the same size and mtime.
"""

import contextlib
import os
import stat
import struct
from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gitlab_nightshift.repository.packed_paths import PackedFolder, PackedPaths, pack_folder
from gitlab_nightshift.system.file_names import list_parents
from gitlab_nightshift.system.openat import open_folder, open_parent, set_mode

TOP = ""
DEEPEST = 200
"""Levels of folders; for each one a descriptor is open (``_walk``)."""


class EntryKind(StrEnum):
    """The type of an entry. ``other`` is a device, FIFO, socket, or too deeply nested folder."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


class TreeEntry(NamedTuple):
    """The result of ``lstat`` for a path, with the fields in the same order: a tree may have a
    million. ``st_mode`` is type and mode, without the type for a too deeply nested folder. ``size``
    is in bytes, ``target`` a link's text."""

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

_ROW = struct.Struct("=IQQQIIQqq")
"""A ``TreeEntry`` without its target."""
_MODE = struct.Struct(f"=I{_ROW.size - 4}x")
_OWNER = struct.Struct("=28xII24x")
_MODE_AND_SIZE = struct.Struct("=I32xQ16x")
_pack = _ROW.pack
_MOST_NS = (1 << 63) - 1
_BATCH = 1_000
"""Entries of a folder that are read at once."""


class TooManyEntriesError(Exception):
    """A tree has more entries than the limit."""


_NO_ENTRIES = PackedFolder(b"", b"")


class TreeSnapshot(PackedPaths[TreeEntry]):
    """A tree at one time; ``targets`` are the texts of its links by path."""

    def __init__(self, folders: Mapping[str, PackedFolder], targets: Mapping[str, str]) -> None:
        super().__init__(folders, _ROW.size, self._decode)
        self.targets = targets

    def _decode(self, path: str, row: bytes) -> TreeEntry:
        return _unpack_entry(row, self.targets.get(path, ""))

    def list_owners(self) -> set[tuple[int, int]]:
        """All pairs of user and group that own an entry."""
        folders = self.folders.values()
        return {(u, g) for packed in folders for u, g in _OWNER.iter_unpack(packed.rows)}

    def read_modes(self) -> Iterator[tuple[str, int]]:
        """Each path with its ``st_mode``."""
        for folder, packed in self.folders.items():
            prefix, modes = f"{folder}/" if folder else "", _MODE.iter_unpack(packed.rows)
            for name, (mode,) in zip(packed.read_names(), modes, strict=True):
                yield prefix + name, mode

    def read_file_sizes(self, folder: str) -> dict[str, int]:
        """The sizes of the regular files in a folder, by name."""
        packed = self.folders.get(folder, _NO_ENTRIES)
        rows = zip(packed.read_names(), _MODE_AND_SIZE.iter_unpack(packed.rows), strict=True)
        return {name: size for name, (mode, size) in rows if stat.S_ISREG(mode)}

    def replace(self, changes: Mapping[str, TreeEntry | None]) -> "TreeSnapshot":
        """The snapshot with these entries replaced, added or (None) removed."""
        rows = {path: entry and _pack(*entry[:-1]) for path, entry in changes.items()}
        targets = {path: text for path, text in self.targets.items() if path not in changes}
        targets |= {path: entry.target for path, entry in changes.items() if entry and entry.target}
        return TreeSnapshot(self.replace_rows(rows), targets)


NOTHING = TreeSnapshot({}, {})
"""The snapshot of no tree."""


class ComparedTree(Mapping[str, TreeEntry]):
    """A tree as it is now: an earlier ``snapshot``, and what differs from it. ``differing`` are the
    entries that are new or not the same, ``gone`` the paths that are missing.

    An agent changes ten of a million files: the others take no additional memory.
    """

    def __init__(
        self, snapshot: TreeSnapshot, differing: Mapping[str, TreeEntry], gone: AbstractSet[str]
    ) -> None:
        self.snapshot, self.differing, self.gone = snapshot, differing, gone

    def __getitem__(self, path: str) -> TreeEntry:
        if path in self.differing:
            return self.differing[path]
        if path in self.gone:
            raise KeyError(path)
        return self.snapshot[path]

    def __iter__(self) -> Iterator[str]:
        yield from (path for path in self.snapshot if path not in self.gone)
        yield from (path for path in self.differing if path not in self.snapshot)

    def __len__(self) -> int:
        new = sum(path not in self.snapshot for path in self.differing)
        return len(self.snapshot) - len(self.gone) + new

    def list_changed(self) -> list[str]:
        """The paths that are new, deleted or changed, sorted: a folder comes before its content."""
        snapshot = self.snapshot
        changed = (
            p for p, entry in self.differing.items() if not is_unchanged(snapshot.get(p), entry)
        )
        return sorted((*changed, *self.gone))

    def find_named(self, name: str) -> list[str]:
        """The paths whose last part is ``name``."""
        new = (p for p in self.differing if p.rpartition("/")[2] == name and p not in self.snapshot)
        return [*(path for path in self.snapshot.find_named(name) if path not in self.gone), *new]


def scan(root: Path) -> TreeSnapshot:
    """Every path below ``root`` except its ``.git``, and the top itself as "".

    Our own folders whose mode forbids reading are opened for a moment. Raises OSError if ``root``
    cannot be read.
    """
    folders: dict[str, PackedFolder] = {}
    targets: dict[str, str] = {}
    for listed in _walk(root, None, None):
        folders[listed.path] = listed.packed
        for name in listed.links:
            targets[_join(listed.path, name)] = os.readlink(name, dir_fd=listed.fd)
    return TreeSnapshot(folders, targets)


def compare(
    root: Path,
    snapshot: TreeSnapshot,
    *,
    only: Container[str] | None = None,
    limit: int | None = None,
) -> ComparedTree:
    """Compare every path that ``scan`` would find with an earlier snapshot.

    With ``only``, other folders than these are listed but not entered. Raises TooManyEntriesError
    beyond ``limit`` entries, OSError if ``root`` cannot be read.
    """
    differing: dict[str, TreeEntry] = {}
    gone: set[str] = set()
    unlisted = dict(snapshot.folders)
    for listed in _walk(root, only, limit):
        if unlisted.pop(listed.path, None) != listed.packed:
            old, new = snapshot.unpack_folder(listed.path), listed.packed.read_rows(_ROW.size)
            gone.update(_join(listed.path, name) for name in old.keys() - new.keys())
            for name in (name for name, row in new.items() if old.get(name) != row):
                target = os.readlink(name, dir_fd=listed.fd) if name in listed.links else ""
                differing[_join(listed.path, name)] = _unpack_entry(new[name], target)
    for folder, packed in unlisted.items():  # they are missing, or could not be listed
        gone.update(_join(folder, name) for name in packed.read_names())
    return ComparedTree(snapshot, differing, gone)


def rescan(root: Path, tree: ComparedTree, paths: Iterable[str]) -> ComparedTree:
    """Update a compared tree at these paths and the folders above them."""
    differing, gone = dict(tree.differing), set(tree.gone)
    parents = {path.rpartition("/")[0] for path in paths}
    ancestors = {folder for parent in parents for folder in list_parents(parent)}
    for path in {*paths, *parents, *ancestors}:
        differing.pop(path, None)
        gone.discard(path)
        entry = _find_entry(root, path)
        if entry is None:
            gone |= {path} & tree.snapshot.keys()
        elif entry != tree.snapshot.get(path):
            differing[path] = entry
    return ComparedTree(tree.snapshot, differing, gone)


def _find_entry(root: Path, path: str) -> TreeEntry | None:
    with contextlib.suppress(OSError):
        if path == TOP:
            return _build_entry(os.lstat(root), "")
        with open_parent(root, path) as (fd, name):
            status = os.lstat(name, dir_fd=fd)
            target = os.readlink(name, dir_fd=fd) if stat.S_ISLNK(status.st_mode) else ""
        return _build_entry(status, target)
    return None


class _ListedFolder(NamedTuple):
    """The entries of a folder that is open as ``fd``; ``links`` are the names of its links."""

    path: str
    fd: int
    packed: PackedFolder
    links: AbstractSet[str]


def _walk(root: Path, only: Container[str] | None, limit: int | None) -> Iterator[_ListedFolder]:
    """List the folders of a tree, each before those in it; the top itself is the first entry."""
    top = os.lstat(root)
    row = _pack(*_build_entry(top, "")[:-1])
    with _enter_folder(root, None, top.st_mode) as fd:
        yield from _Walk(row, only, limit).list_folder(fd, TOP, 0)


class _Walk:
    def __init__(self, top_row: bytes, only: Container[str] | None, limit: int | None) -> None:
        self._top_row, self._only, self._left = top_row, only, limit

    def list_folder(self, fd: int, path: str, depth: int) -> Iterator[_ListedFolder]:
        """List a folder, then the folders in it."""
        names, rows, others = self._read_folder(fd, path)
        if depth >= DEEPEST:
            rows = list(map(_hide_folder, rows))
        links = {name for name, mode in others if stat.S_ISLNK(mode)}
        yield _ListedFolder(path, fd, pack_folder(names, rows), links)
        # After the scan was closed: one descriptor for each level, not two.
        for name, mode in others if depth < DEEPEST else ():
            inner = _join(path, name)
            if stat.S_ISDIR(mode) and (self._only is None or inner in self._only):
                with contextlib.suppress(PermissionError), _enter_folder(name, fd, mode) as below:
                    yield from self.list_folder(below, inner, depth + 1)

    def _read_folder(
        self, fd: int, path: str
    ) -> tuple[list[str], list[bytes], list[tuple[str, int]]]:
        """The names and rows of all entries; names and ``st_mode`` of those but regular files."""
        names, rows = ([TOP], [self._top_row]) if path == TOP else ([], [])
        others: list[tuple[str, int]] = []
        with os.scandir(fd) as entries:
            # In batches: an agent may put a million files into one folder.
            while batch := list(islice(entries, _BATCH)):
                items = [
                    (entry.name, entry.stat(follow_symlinks=False))
                    for entry in batch
                    if path != TOP or entry.name != ".git"
                ]
                self._count(len(items))
                names += [name for name, _ in items]
                rows += _pack_all([status for _, status in items])
                others += [(name, s.st_mode) for name, s in items if not stat.S_ISREG(s.st_mode)]
        return names, rows, others

    def _count(self, listed: int) -> None:
        if self._left is not None:
            self._left -= listed
            if self._left < 1:  # the top itself is an entry, too
                raise TooManyEntriesError


def _pack_all(statuses: list[os.stat_result]) -> list[bytes]:
    try:
        return [_pack(*s[:7], s.st_mtime_ns, s.st_ctime_ns) for s in statuses]
    except struct.error:  # a time after 2262
        return [_pack(*_build_entry(s, "")[:-1]) for s in statuses]


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


@contextlib.contextmanager
def _enter_folder(name: str | Path, dir_fd: int | None, mode: int) -> Iterator[int]:
    """Open a folder for listing; if its mode had to be changed for that, it is restored."""
    try:
        with open_folder(name, dir_fd) as fd:
            yield fd
    finally:
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            with contextlib.suppress(PermissionError):  # another user's, so we never changed it
                set_mode(name, dir_fd, stat.S_IMODE(mode))


def _hide_folder(row: bytes) -> bytes:
    """The row of an entry that is too deep to be entered: for a folder, without its type."""
    mode, *others = _ROW.unpack(row)
    return _pack(stat.S_IMODE(mode) if stat.S_ISDIR(mode) else mode, *others)


_KINDS = {
    stat.S_IFREG: EntryKind.FILE,
    stat.S_IFDIR: EntryKind.FOLDER,
    stat.S_IFLNK: EntryKind.LINK,
}


def _unpack_entry(row: bytes, target: str) -> TreeEntry:
    return TreeEntry._make((*_ROW.unpack(row), target))


def _build_entry(s: os.stat_result, target: str) -> TreeEntry:
    # Anybody may give a file a time that 64 bits of nanoseconds cannot hold (utimensat(2)).
    mtime_ns, ctime_ns = (
        max(-_MOST_NS, min(ns, _MOST_NS)) for ns in (s.st_mtime_ns, s.st_ctime_ns)
    )
    return TreeEntry(*s[:7], mtime_ns, ctime_ns, target)


def is_unchanged(old: TreeEntry | None, new: TreeEntry | None) -> bool:
    """True if an entry was not changed. For a folder only kind, mode and owner count: its times
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
    if (old.size, old.mtime_ns, old.target) != (new.size, new.mtime_ns, new.target):
        return False
    # Another owner does not get setuid.
    bits = 0o7777 if read_owner(old) == read_owner(new) else 0o777
    return old.kind is new.kind and (old.mode ^ new.mode) & bits == 0


def read_owner(entry: TreeEntry) -> tuple[int, int]:
    """The user and group of an entry."""
    return entry.uid, entry.gid
