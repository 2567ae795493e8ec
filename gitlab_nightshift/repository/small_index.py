"""Indexes of a few files: git takes as long for a whole one as its tree is large.

The form (gitformat-index(5), versions 2 and 3): a header, entries sorted by path and padded to
eight bytes, extensions, and a checksum.
"""

import hashlib
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.repository.object_rows import Row

_HEADER = struct.Struct(">4sII")
_BEFORE_ID = struct.Struct(">24xI12x")
"""Times, device and inode, the mode, owner and size: zeros mean that no file was looked at."""
_FLAGS = struct.Struct(">H")
_LENGTH, _STAGE, _EXTENDED = 0x0FFF, 0x3000, 0x4000


def write_index(path: Path, rows: Mapping[str, Row], length: int) -> None:
    """Write an index of these files, by raw path; ids have ``length`` hex digits."""
    named = sorted((os.fsencode(name), row) for name, row in rows.items())
    entries = b"".join(_format_entry(name, row) for name, row in named)
    data = _HEADER.pack(b"DIRC", 2, len(named)) + entries
    path.write_bytes(data + _compute_checksum(data, length))


def read_index(path: Path, length: int) -> dict[str, Row]:
    """An index's files by raw path; {} if there is no index. Raises ValueError for one with
    conflicts, and for another version."""
    if not path.exists():
        return {}
    data = path.read_bytes()
    magic, version, count = _HEADER.unpack_from(data)
    if magic != b"DIRC" or version not in (2, 3):
        raise ValueError(f"an index of version {version}")
    rows: dict[str, Row] = {}
    at = _HEADER.size
    for _ in range(count):
        (mode,) = _BEFORE_ID.unpack_from(data, at)
        start = at + _BEFORE_ID.size + length // 2
        (flags,) = _FLAGS.unpack_from(data, start)
        if flags & _STAGE:
            raise ValueError("an index with conflicts")
        first = start + (4 if flags & _EXTENDED else 2)
        end = data.index(b"\0", first)
        blob = data[start - length // 2 : start].hex()
        rows[os.fsdecode(data[first:end])] = f"{mode:o}", blob
        at += _compute_padded(end - at)
    return rows


def _format_entry(name: bytes, row: Row) -> bytes:
    mode, blob = row
    flags = _FLAGS.pack(min(len(name), _LENGTH))
    entry = _BEFORE_ID.pack(int(mode, 8)) + bytes.fromhex(blob) + flags + name
    return entry.ljust(_compute_padded(len(entry)), b"\0")


def _compute_padded(size: int) -> int:
    """The size of an entry: a multiple of eight, with at least one NUL."""
    return (size + 8) & ~7


def _compute_checksum(data: bytes, length: int) -> bytes:
    return (hashlib.sha1(data) if length == 40 else hashlib.sha256(data)).digest()  # noqa: S324
