"""The difference of two trees: its files, with both sides, hunks and changed lines."""

from collections.abc import Iterator
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
        """The old numbers of the deleted lines, from 1."""
        return tuple(n for h in self.hunks for n in range(h.old, h.old + h.old_count))

    @property
    def added_numbers(self) -> tuple[int, ...]:
        """The new numbers of the added lines, from 1."""
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

    def find_first_line(self) -> int:
        """The number of the first added line, or else of the first deleted one, or else 0."""
        return next(iter((*self.added_numbers, *self.deleted_numbers)), 0)


def _split_lines(data: bytes | None, binary: bool) -> list[str]:
    if data is None or binary:
        return []
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_difference(repository: Repository, old: str, new: str) -> tuple[ChangedFile, ...]:
    """The files that differ between two trees or commits, renamed ones matched. Raises GitError."""
    raw, patch = _find_cached(repository, old, new) or _read_with_renames(repository, old, new)
    diffs = list(_parse_raw(raw))
    hunks = list(_parse_patches(patch, [diff.status == "T" for diff in diffs]))
    pairs = list(zip(diffs, hunks, strict=True))
    texts = [diff for diff, file_hunks in pairs if not file_hunks.binary]
    sides = {blob for diff in texts for blob, mode in diff.sides if _is_stored(blob, mode)}
    blobs = read_blobs(repository, sides)
    return tuple(_build_file(diff, blobs, file_hunks) for diff, file_hunks in pairs)


def _find_cached(repository: Repository, old: str, new: str) -> tuple[bytes, bytes] | None:
    """The raw output and the patch of a difference that was read before, without looking for
    renames; None if there is none, or if its added and deleted files may be renames."""
    cached = repository.patches.get((old, new))
    if cached is None or {"A", "D"} <= {diff.status for diff in _parse_raw(cached[0])}:
        return None
    return cached


def _read_with_renames(repository: Repository, old: str, new: str) -> tuple[bytes, bytes]:
    options = ("-r", "-z", "--raw", "--patch", "-U0", *_RENAMES)
    raw, _, patch = repository.run("diff-tree", *options, old, new).partition(b"\0\0")
    return raw, patch


@dataclass(frozen=True)
class _RawDiff:
    """A path as ``git diff-tree --raw`` lists it; ``old`` and ``new`` are ids of blobs."""

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
class _FileHunks:
    """The hunks of one file, without the unchanged lines that a patch may show around them.

    While a patch is read, the lists count on both sides: ``_next`` has the next line numbers,
    ``_remaining`` the unread lines of the patch's hunk, ``_changed`` the changed lines since the
    last unchanged one.
    """

    hunks: list[Hunk]
    binary: bool = False
    _next: list[int] = field(default_factory=lambda: [0, 0])
    _remaining: list[int] = field(default_factory=lambda: [0, 0])
    _changed: list[int] = field(default_factory=lambda: [0, 0])

    def begin(self, old: int, new: int, old_count: int, new_count: int) -> None:
        """Begin a hunk of the patch: its first line numbers and its counts."""
        self._next, self._remaining = [old, new], [old_count, new_count]

    def take(self, sign: bytes) -> None:
        """Count a line by its sign. Lines after the last one of a hunk are no content."""
        if sign not in _SIDES or not any(self._remaining):
            return
        if sign == b" ":
            self.end()
        for side in _SIDES[sign]:
            self._next[side] += 1
            self._remaining[side] -= 1
            if sign != b" ":
                self._changed[side] += 1
        if not any(self._remaining):
            self.end()

    def end(self) -> "_FileHunks":
        """Make a hunk of the changed lines since the last unchanged one, if there are any."""
        if any(self._changed):
            old_count, new_count = self._changed
            # An empty side has the number of the line before.
            old, new = self._next[0] - (old_count or 1), self._next[1] - (new_count or 1)
            self.hunks.append(Hunk(old, old_count, new, new_count))
            self._changed = [0, 0]
        return self


def _is_stored(blob: str, mode: str) -> bool:
    return mode != SUBMODULE and bool(blob.strip("0"))


def _parse_raw(out: bytes) -> Iterator[_RawDiff]:
    parts = iter(split_names(out))
    for meta in parts:
        old_mode, new_mode, old, new, status = meta.removeprefix(":").split(" ")
        old_path = next(parts)
        path = next(parts) if status[0] in "RC" else old_path
        yield _RawDiff(path, old_path, status[0], old_mode, new_mode, old, new)


def _parse_patches(patch: bytes, type_changes: list[bool]) -> Iterator[_FileHunks]:
    """The hunks of each file, in the order of the raw output: paths in a patch are not parsed.
    ``type_changes``: for each file, whether its type changed."""
    parsed = list(_split_patch(patch.split(b"\n")))
    index = 0
    for type_change in type_changes:
        hunks = parsed[index]
        if type_change:  # git writes two files, a deleted and a new one (its diff.c)
            index += 1
            binary = hunks.binary or parsed[index].binary
            hunks = _FileHunks([] if binary else hunks.hunks + parsed[index].hunks, binary)
        index += 1
        yield hunks


def _split_patch(lines: list[bytes]) -> Iterator[_FileHunks]:
    """Split at ``diff --git``: every line of a file's content begins with a space, + or -."""
    current: _FileHunks | None = None
    for line in lines:
        if line.startswith(b"diff --git "):
            if current:
                yield current.end()
            current = _FileHunks([])
        elif current and line.startswith((b"Binary files ", b"GIT binary patch")):
            current.binary = True
        elif current and (header := _HUNK.match(line)):
            old, old_count, new, new_count = (int(n) if n else 1 for n in header.groups())
            # An empty side has the number of the line before.
            current.begin(
                old if old_count else old + 1, new if new_count else new + 1, old_count, new_count
            )
        elif current:
            current.take(line[:1])
    if current:
        yield current.end()


def _build_file(diff: _RawDiff, blobs: dict[str, bytes], hunks: _FileHunks) -> ChangedFile:
    return ChangedFile(
        raw_path=diff.path,
        raw_old_path=diff.old_path,
        status=diff.status,
        old_mode=diff.old_mode,
        new_mode=diff.new_mode,
        old=_find_content(diff.old, diff.old_mode, blobs),
        new=_find_content(diff.new, diff.new_mode, blobs),
        hunks=tuple(hunks.hunks),
        binary=hunks.binary,
    )


def _find_content(blob: str, mode: str, blobs: dict[str, bytes]) -> bytes | None:
    if not blob.strip("0"):
        return None
    return b"Subproject commit %s\n" % blob.encode() if mode == SUBMODULE else blobs.get(blob, b"")
