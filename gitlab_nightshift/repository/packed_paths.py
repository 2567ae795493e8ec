"""Many paths with a small value each, in a fraction of the memory of a dict: half a million take
35 MB instead of 200.

The names in a folder are one string, and their rows of bytes another, so a whole folder is compared
at once. To find a single path its folder is unpacked, and cached for the next path.
"""

import os
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

V = TypeVar("V")

MOST_UNPACKED = 16
"""Unpacked folders that are cached."""


class PackedFolder(NamedTuple):
    """The raw names in a folder, joined by ``/``, and their rows, all of one length."""

    names: bytes
    rows: bytes

    def read_names(self) -> list[str]:
        """The names, in the order of the rows."""
        return os.fsdecode(self.names).split("/") if self.rows else []

    def read_rows(self, size: int) -> dict[str, bytes]:
        """The rows, which have ``size`` bytes each, by name."""
        rows = (self.rows[at : at + size] for at in range(0, len(self.rows), size))
        return dict(zip(self.read_names(), rows, strict=True))


def pack_folder(names: Iterable[str], rows: Iterable[bytes]) -> PackedFolder:
    """Pack names with their rows."""
    return PackedFolder(os.fsencode("/".join(names)), b"".join(rows))


class PackedPaths(Mapping[str, V]):
    """Values by path, folder by folder. ``size`` is the length of a row in bytes; ``decode`` makes
    the value of a path from its row."""

    def __init__(
        self, folders: Mapping[str, PackedFolder], size: int, decode: Callable[[str, bytes], V]
    ) -> None:
        self.folders, self.size, self.decode = folders, size, decode
        self._length = sum(len(folder.rows) for folder in folders.values()) // size
        self._unpacked: dict[str, dict[str, bytes]] = {}

    def __getitem__(self, path: str) -> V:
        folder, _, name = path.rpartition("/")
        return self.decode(path, self.unpack_folder(folder)[name])

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        folder, _, name = path.rpartition("/")
        return name in self.unpack_folder(folder)

    def __iter__(self) -> Iterator[str]:
        for folder, packed in self.folders.items():
            prefix = f"{folder}/" if folder else ""
            yield from (prefix + name for name in packed.read_names())

    def __len__(self) -> int:
        return self._length

    def items(self) -> ItemsView[str, V]:
        """The paths with their values."""
        return PackedItems(self)

    def read_items(self) -> Iterator[tuple[str, V]]:
        """The paths with their values, one after the other."""
        return ((path, self.decode(path, row)) for path, row in self.read_rows())

    def read_rows(self) -> Iterator[tuple[str, bytes]]:
        """The paths with their packed rows."""
        for folder, packed in self.folders.items():
            prefix = f"{folder}/" if folder else ""
            yield from ((prefix + name, row) for name, row in packed.read_rows(self.size).items())

    def list_missing(self, other: "PackedPaths[Any]") -> Iterator[str]:
        """The paths that the other mapping does not have."""
        for folder, packed in self.folders.items():
            prefix, other_folder = f"{folder}/" if folder else "", other.folders.get(folder)
            names = frozenset(other_folder.read_names() if other_folder else ())
            yield from (prefix + name for name in packed.read_names() if name not in names)

    def unpack_folder(self, folder: str) -> Mapping[str, bytes]:
        """The rows of the names in a folder, none for an unknown one."""
        rows = self._unpacked.get(folder)
        if rows is None:
            if len(self._unpacked) >= MOST_UNPACKED:
                self._unpacked.clear()
            rows = self._unpacked[folder] = self._read_folder(folder)
        return rows

    def find_named(self, name: str) -> list[str]:
        """The paths whose last part is ``name``."""
        raw = b"/%s/" % os.fsencode(name)
        folders = (path for path, packed in self.folders.items() if raw in b"/%s/" % packed.names)
        return [f"{folder}/{name}" if folder else name for folder in folders]

    def replace_rows(self, changes: Mapping[str, bytes | None]) -> dict[str, PackedFolder]:
        """The folders with these rows replaced, added or (None) removed."""
        by_folder: dict[str, dict[str, bytes]] = {}
        for path, row in changes.items():
            folder, _, name = path.rpartition("/")
            rows = by_folder.get(folder)
            if rows is None:
                rows = by_folder[folder] = self._read_folder(folder)
            if row is None:
                rows.pop(name, None)
            else:
                rows[name] = row
        return {
            **self.folders,
            **{path: pack_folder(rows, rows.values()) for path, rows in by_folder.items()},
        }

    def _read_folder(self, folder: str) -> dict[str, bytes]:
        packed = self.folders.get(folder)
        return packed.read_rows(self.size) if packed else {}


class PackedItems(ItemsView[str, V]):
    """The items of a packed mapping; without this class, each path would be looked up."""

    _mapping: Any

    def __iter__(self) -> Iterator[tuple[str, V]]:
        items: Iterator[tuple[str, V]] = self._mapping.read_items()
        return items


class PathPacker:
    """Collects rows by path, in any order, for ``PackedPaths``."""

    def __init__(self) -> None:
        self._folders: dict[bytes, tuple[bytearray, bytearray]] = {}

    def add(self, path: bytes, row: bytes) -> None:
        """Add a raw path, each once."""
        folder, _, name = path.rpartition(b"/")
        if folder in self._folders:
            names, rows = self._folders[folder]
            names += b"/"
        else:
            names, rows = self._folders[folder] = bytearray(), bytearray()
        names += name
        rows += row

    def finish(self) -> dict[str, PackedFolder]:
        """The folders of all that was added."""
        return {
            os.fsdecode(folder): PackedFolder(bytes(names), bytes(rows))
            for folder, (names, rows) in self._folders.items()
        }
