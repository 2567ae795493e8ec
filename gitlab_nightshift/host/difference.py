"""The difference of two trees as files with both sides and the lines that changed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gitlab_nightshift.host.git import PLAIN_DIFF, split_names
from gitlab_nightshift.host.repository import Repository, read_blobs

GITLINK, LINK = "160000", "120000"
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_RENAMES = ("--find-renames=50%", *(option for option in PLAIN_DIFF if option != "--no-renames"))


@dataclass(frozen=True)
class Hunk:
    """Lines that stand in the place of others: each side's first number, from 1, and how many."""

    old: int
    old_count: int
    new: int
    new_count: int


@dataclass(frozen=True)
class FileDifference:
    """One file of a difference.

    ``status`` is A, M, D, R (renamed, perhaps changed too) or T (type changed). ``path`` is the
    new one (of a deleted file the old), ``old_path`` differs from it only in a rename; both are
    raw. A side that does not exist is None, that of a binary file is empty, that of a submodule one
    line that names its commit. A binary file has no hunks.
    """

    path: str
    old_path: str
    status: str
    old_mode: str
    new_mode: str
    old: bytes | None
    new: bytes | None
    hunks: tuple[Hunk, ...]
    binary: bool

    @property
    def deleted(self) -> tuple[int, ...]:
        """The numbers of the lines that went, in the old side, from 1."""
        return tuple(n for h in self.hunks for n in range(h.old, h.old + h.old_count))

    @property
    def added(self) -> tuple[int, ...]:
        """The numbers of the lines that came, in the new side, from 1."""
        return tuple(n for h in self.hunks for n in range(h.new, h.new + h.new_count))


def read_difference(repository: Repository, old: str, new: str) -> tuple[FileDifference, ...]:
    """What differs between two trees or commits, with renames found. Raises GitError."""
    raw = list(_raw(repository.run("diff-tree", "-r", "-z", "--raw", *_RENAMES, old, new)))
    patch = repository.run("diff-tree", "-r", "--patch", "-U0", *_RENAMES, old, new)
    rows = list(zip(raw, _patches(patch, [row.status == "T" for row in raw]), strict=True))
    texts = [row for row, lines in rows if not lines.binary]
    sides = {blob for row in texts for blob, mode in row.sides if _is_stored(blob, mode)}
    blobs = read_blobs(repository, sides)
    return tuple(_file(row, blobs, lines) for row, lines in rows)


@dataclass(frozen=True)
class _Row:
    path: str
    old_path: str
    status: str
    old_mode: str
    new_mode: str
    old: str
    new: str

    @property
    def sides(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return (self.old, self.old_mode), (self.new, self.new_mode)


@dataclass
class _Lines:
    hunks: list[Hunk]
    binary: bool = False


def _is_stored(blob: str, mode: str) -> bool:
    return mode != GITLINK and bool(blob.strip("0"))


def _raw(out: bytes) -> Iterator[_Row]:
    parts = iter(split_names(out))
    for meta in parts:
        old_mode, new_mode, old, new, status = meta.removeprefix(":").split(" ")
        old_path = next(parts)
        path = next(parts) if status[0] in "RC" else old_path
        yield _Row(path, old_path, status[0], old_mode, new_mode, old, new)


def _patches(patch: bytes, twice: list[bool]) -> Iterator[_Lines]:
    """The changed lines of each file, in the order of the raw rows: no path of a patch is read.

    Git writes a type change as two files, a deleted and a new one.
    """
    found = list(_each(patch.split(b"\n")))
    at = 0
    for double in twice:
        lines = found[at]
        if double:
            both = (lines, found[at + 1])
            lines = _Lines([h for part in both for h in part.hunks], any(p.binary for p in both))
        at += 2 if double else 1
        yield lines


def _each(lines: list[bytes]) -> Iterator[_Lines]:
    """Split at ``diff --git``: without context, every line of a file begins with + or -."""
    current: _Lines | None = None
    for line in lines:
        if line.startswith(b"diff --git "):
            if current:
                yield current
            current = _Lines([])
        elif current and line.startswith((b"Binary files ", b"GIT binary patch")):
            current.binary = True
        elif current and (hunk := _HUNK.match(line)):
            start, count, new_start, new_count = (int(n) if n else 1 for n in hunk.groups())
            current.hunks.append(Hunk(start, count, new_start, new_count))
    if current:
        yield current


def _file(row: _Row, blobs: dict[str, bytes], lines: _Lines) -> FileDifference:
    return FileDifference(
        path=row.path,
        old_path=row.old_path,
        status=row.status,
        old_mode=row.old_mode,
        new_mode=row.new_mode,
        old=_content(row.old, row.old_mode, blobs),
        new=_content(row.new, row.new_mode, blobs),
        hunks=tuple(lines.hunks),
        binary=lines.binary,
    )


def _content(blob: str, mode: str, blobs: dict[str, bytes]) -> bytes | None:
    if not blob.strip("0"):
        return None
    return b"Subproject commit %s\n" % blob.encode() if mode == GITLINK else blobs.get(blob, b"")
