"""The form of what ``git cat-file --batch`` writes, and of a tree (git-cat-file(1))."""

import os
import re
from collections.abc import Iterator

Row = tuple[str, str]
"""An entry of a folder: its mode, as git stores it, and its id."""


def is_full_id(revision: str) -> bool:
    """True for the whole id of an object, which names no other one later."""
    return re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", revision) is not None


def parse_header(line: str) -> tuple[str, int] | None:
    """The id and the size in bytes of an object; None where there is none: then the line ends with
    ``missing`` or ``ambiguous``."""
    found, *_, size = line.split(" ")
    return (found, int(size)) if size.isdigit() else None


def split_objects(out: bytes) -> Iterator[tuple[str, bytes] | None]:
    """The id and the bytes of each object, None for a missing one."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        header = parse_header(os.fsdecode(out[at:end]))
        at = end + 1
        if header is None:
            yield None
        else:
            found, size = header
            yield found, out[at : at + size]
            at += size + 1


def parse_rows(data: bytes, length: int) -> Iterator[tuple[str, Row]]:
    """The entries of a tree by raw name; ids have ``length`` hex digits."""
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + length // 2
        yield os.fsdecode(name), (mode.decode(), data[end + 1 : at].hex())
