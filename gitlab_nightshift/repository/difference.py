"""The difference of two trees: its files, with both sides, hunks and changed lines."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from gitlab_nightshift.repository.git import PLAIN_DIFF, split_names
from gitlab_nightshift.repository.git_formats import SUBMODULE
from gitlab_nightshift.repository.private_repository import Repository, read_blobs
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_SIDES = {b"-": (0,), b"+": (1,), b" ": (0, 1)}
"""The sides that a line of a patch belongs to, 0 for old and 1 for new, by its sign."""
_HUNK = compile_lazily(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_RENAMES = ("--find-renames=50%", *(option for option in PLAIN_DIFF if option != "--no-renames"))


@dataclass(frozen=True)
class Hunk:
    """Lines that replace others: the first line number on each side, from 1, and the counts."""

    old: int
    old_count: int
    new: int
    new_count: int


@dataclass(frozen=True)
class Line:
    """A line of a file: its number, from 1, and its text without the end of line."""

    number: int
    text: str


@dataclass(frozen=True, eq=False)
class ChangedFile:
    """One file of a change, with both sides.

    ``status`` is A, M, D, R (renamed, perhaps changed too) or T (type changed). ``raw_path`` is the
    new path as git holds it, or the old one of a deleted file; ``raw_old_path`` differs from that
    only in a rename. ``old`` and ``new`` are bytes: None for a side that does not exist, empty for
    a binary file, and for a submodule a line that names its commit. A binary file has no hunks and
    no lines.

    ``private_repository.py: DiffFile`` is a file as git lists it, with line counts and without
    renames. Publish, which may not read an agent's text, knows a change only by those.
    """

    raw_path: str
    raw_old_path: str
    status: str
    old_mode: str
    new_mode: str
    old: bytes | None
    new: bytes | None
    hunks: tuple[Hunk, ...]
    binary: bool

    @cached_property
    def path(self) -> str:
        """The path, printable."""
        return format_path(self.raw_path)

    @cached_property
    def old_path(self) -> str:
        """The old path, printable."""
        return format_path(self.raw_old_path)

    @property
    def deleted_numbers(self) -> tuple[int, ...]:
        """The numbers of the deleted lines on the old side, from 1."""
        return tuple(n for h in self.hunks for n in range(h.old, h.old + h.old_count))

    @property
    def added_numbers(self) -> tuple[int, ...]:
        """The numbers of the added lines on the new side, from 1."""
        return tuple(n for h in self.hunks for n in range(h.new, h.new + h.new_count))

    @cached_property
    def old_lines(self) -> list[str]:
        """All lines before; none for a new or binary file."""
        return _split_lines(self.old, self.binary)

    @cached_property
    def new_lines(self) -> list[str]:
        """All lines after; none for a deleted or binary file."""
        return _split_lines(self.new, self.binary)

    @cached_property
    def deleted(self) -> list[Line]:
        """The deleted lines, with their old numbers."""
        return [Line(n, self.old_lines[n - 1]) for n in self.deleted_numbers]

    @cached_property
    def added(self) -> list[Line]:
        """The added lines, with their new numbers."""
        return [Line(n, self.new_lines[n - 1]) for n in self.added_numbers]

    def find_line(self, marks: Iterable[str]) -> int:
        """The number of the first changed line with one of the texts ``marks``; added lines come
        before deleted ones. Without a match it is that of the first changed line, or 0."""
        texts = [mark for mark in marks if len(mark) > 1]
        sides = (self.added, self.deleted)
        found = (line.number for s in sides for m in texts for line in s if m in line.text)
        return next(found, next((line.number for side in sides for line in side), 0))


def _split_lines(data: bytes | None, binary: bool) -> list[str]:
    if data is None or binary:
        return []
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def read_difference(repository: Repository, old: str, new: str) -> tuple[ChangedFile, ...]:
    """What differs between two trees or commits, with renames found. Raises GitError."""
    listed, patch = _get_cached(repository, old, new) or _read_with_renames(repository, old, new)
    raw = list(_parse_raw(listed))
    rows = list(zip(raw, _parse_patches(patch, [row.status == "T" for row in raw]), strict=True))
    texts = [row for row, lines in rows if not lines.binary]
    sides = {blob for row in texts for blob, mode in row.sides if _is_stored(blob, mode)}
    blobs = read_blobs(repository, sides)
    return tuple(_build_file(row, blobs, lines) for row, lines in rows)


def _get_cached(repository: Repository, old: str, new: str) -> tuple[bytes, bytes] | None:
    """The rows and the patch of a difference that was read before; None if it was not, or if it may
    have renames: that was read without looking for them."""
    known = repository.patches.get((old, new))
    if known is None or {"A", "D"} <= {row.status for row in _parse_raw(known[0])}:
        return None
    return known


def _read_with_renames(repository: Repository, old: str, new: str) -> tuple[bytes, bytes]:
    asked = ("-r", "-z", "--raw", "--patch", "-U0")
    listed, _, patch = repository.run("diff-tree", *asked, *_RENAMES, old, new).partition(b"\0\0")
    return listed, patch


@dataclass(frozen=True)
class _Row:
    """A path as ``git diff-tree --raw`` lists it."""

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
    """The hunks of one file, without the unchanged lines that a patch may show around them.

    While a patch is read, ``_at`` has the next line numbers of both sides, ``_left`` the lines of
    the patch's hunk that are left, ``_run`` those of the present run of changed lines.
    """

    hunks: list[Hunk]
    binary: bool = False
    _at: list[int] = field(default_factory=lambda: [0, 0])
    _left: list[int] = field(default_factory=lambda: [0, 0])
    _run: list[int] = field(default_factory=lambda: [0, 0])

    def begin(self, old: int, new: int, old_count: int, new_count: int) -> None:
        """Begin a hunk of the patch: its first line numbers and its counts."""
        self._at, self._left = [old, new], [old_count, new_count]

    def take(self, sign: bytes) -> None:
        """Count a line by its sign. Lines behind the last one of a hunk are no content."""
        if sign not in _SIDES or not any(self._left):
            return
        sides = _SIDES[sign]
        if len(sides) == 2:
            self.end()
        for side in sides:
            self._at[side] += 1
            self._left[side] -= 1
            self._run[side] += len(sides) == 1
        if not any(self._left):
            self.end()

    def end(self) -> "_Lines":
        """Make a hunk of the present run of changed lines, if there is one."""
        if any(self._run):
            old, new = (at - (run or 1) for at, run in zip(self._at, self._run, strict=True))
            self.hunks.append(Hunk(old, self._run[0], new, self._run[1]))
            self._run = [0, 0]
        return self


def _is_stored(blob: str, mode: str) -> bool:
    return mode != SUBMODULE and bool(blob.strip("0"))


def _parse_raw(out: bytes) -> Iterator[_Row]:
    parts = iter(split_names(out))
    for meta in parts:
        old_mode, new_mode, old, new, status = meta.removeprefix(":").split(" ")
        old_path = next(parts)
        path = next(parts) if status[0] in "RC" else old_path
        yield _Row(path, old_path, status[0], old_mode, new_mode, old, new)


def _parse_patches(patch: bytes, type_changes: list[bool]) -> Iterator[_Lines]:
    """The changed lines of each file, in the order of the raw rows: paths in a patch are not
    parsed. ``type_changes``: whether each row is one."""
    found = list(_split_patch(patch.split(b"\n")))
    at = 0
    for type_change in type_changes:
        lines = found[at]
        if type_change:  # git writes two files, a deleted and a new one (its diff.c)
            both = (lines, found[at + 1])
            binary = any(part.binary for part in both)
            lines = _Lines([h for part in both for h in part.hunks if not binary], binary)
        at += 2 if type_change else 1
        yield lines


def _split_patch(lines: list[bytes]) -> Iterator[_Lines]:
    """Split at ``diff --git``: every line of a file's content begins with a space, + or -."""
    current: _Lines | None = None
    for line in lines:
        if line.startswith(b"diff --git "):
            if current:
                yield current.end()
            current = _Lines([])
        elif current and line.startswith((b"Binary files ", b"GIT binary patch")):
            current.binary = True
        elif current and (hunk := _HUNK.match(line)):
            start, count, new_start, new_count = (int(n) if n else 1 for n in hunk.groups())
            # A hunk without lines on a side has the number of the line before it there.
            current.begin(start + (not count), new_start + (not new_count), count, new_count)
        elif current:
            current.take(line[:1])
    if current:
        yield current.end()


def _build_file(row: _Row, blobs: dict[str, bytes], lines: _Lines) -> ChangedFile:
    return ChangedFile(
        raw_path=row.path,
        raw_old_path=row.old_path,
        status=row.status,
        old_mode=row.old_mode,
        new_mode=row.new_mode,
        old=_read_content(row.old, row.old_mode, blobs),
        new=_read_content(row.new, row.new_mode, blobs),
        hunks=tuple(lines.hunks),
        binary=lines.binary,
    )


def _read_content(blob: str, mode: str, blobs: dict[str, bytes]) -> bytes | None:
    if not blob.strip("0"):
        return None
    return b"Subproject commit %s\n" % blob.encode() if mode == SUBMODULE else blobs.get(blob, b"")
