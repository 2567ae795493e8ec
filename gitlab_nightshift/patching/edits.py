"""What blocks make of files, as pure functions: each SEARCH stands exactly once, or no change."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from gitlab_nightshift.host.paths import is_dot_git
from gitlab_nightshift.patching.blocks import Block

LONGEST_PATH = 1024
LONGEST_NAME = 255
_MARK = "\ufeff"
"""What some editors put at the start of a file: kept, and no part of its first line."""

Read = Callable[[str], bytes | None]
"""The bytes of a file by its path, None where there is none. Raises :class:`Unreadable`."""


class Unreadable(Exception):
    """A file that no block may touch; the text is the reason."""


class NotApplicable(Exception):
    """Blocks that do not fit; ``problems`` names each block and why."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True)
class Edit:
    """A file before and after; None is no file. ``added`` and ``deleted`` count lines."""

    path: str
    before: bytes | None
    after: bytes | None
    added: int
    deleted: int

    @property
    def action(self) -> str:
        """``created``, ``deleted`` or ``edited``."""
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "edited"


def planned(blocks: Iterable[Block], read: Read) -> tuple[Edit, ...]:
    """What the blocks change, in the order of their files.

    Every SEARCH is looked for in the files as they are, so that the order of blocks means nothing.
    Raises :class:`NotApplicable` with every problem that was found.
    """
    by_path: dict[str, list[Block]] = {}
    for block in blocks:
        by_path.setdefault(block.path, []).append(block)
    edits, problems = list[Edit](), list[str]()
    for path, own in by_path.items():
        try:
            edits.append(_edit(path, own, read))
        except NotApplicable as error:
            problems += error.problems
    if problems:
        raise NotApplicable(problems)
    return tuple(edits)


def path_problem(path: str) -> str:
    """Why a path names no file of a checkout, "" where it may."""
    parts = path.split("/")
    if path.startswith("/"):
        return "the path is absolute; it starts at the top of the checkout"
    if not path.isprintable() or len(path) > LONGEST_PATH:
        return "the path is too long or holds characters that no path here has"
    if any(part in ("", ".", "..") for part in parts):
        return "the path is not plain: no empty part, no . and no .. can stand in it"
    if any(len(part.encode()) > LONGEST_NAME for part in parts):
        return "a name in the path is too long"
    return "the path leads into .git" if is_dot_git(path) else ""


def _edit(path: str, blocks: list[Block], read: Read) -> Edit:
    if why := path_problem(path):
        raise NotApplicable(f"{block}: {why}" for block in blocks)
    try:
        before = read(path)
    except Unreadable as error:
        raise NotApplicable(f"{block}: {error}" for block in blocks) from None
    whole = [block for block in blocks if block.delete or not block.search]
    if whole and len(blocks) > 1:
        names = ", ".join(str(block.number) for block in blocks)
        raise NotApplicable([f"{whole[0]}: a file is made or deleted by one block alone ({names})"])
    if whole:
        return _whole(whole[0], before)
    if before is None:
        raise NotApplicable(f"{block}: there is no such file" for block in blocks)
    if b"\0" in before:
        raise NotApplicable(f"{block}: a binary file" for block in blocks)
    return _Text(before).edited(path, blocks)


def _whole(block: Block, before: bytes | None) -> Edit:
    """A block that makes or deletes a file."""
    if block.delete:
        if before is None:
            raise NotApplicable([f"{block}: there is no such file to delete"])
        return Edit(block.path, before, None, 0, len(before.splitlines()))
    if before:
        raise NotApplicable([f"{block}: an empty SEARCH makes a new file, but this one exists"])
    if not block.replace:
        raise NotApplicable([f"{block}: SEARCH and REPLACE are both empty"])
    after = "".join(f"{line}\n" for line in block.replace).encode()
    return Edit(block.path, before, after, len(block.replace), 0)


@dataclass(frozen=True)
class _Place:
    """Lines ``start`` to ``end`` (not included) that become ``lines``, without what stays."""

    block: Block
    start: int
    end: int
    inner_start: int
    inner_end: int
    lines: tuple[str, ...]


class _Text:
    """A text file as lines and their ends; bytes that are no UTF-8 are kept as they are."""

    def __init__(self, data: bytes) -> None:
        self._before = data
        text = data.decode("utf-8", "surrogateescape")
        self._mark = _MARK if text.startswith(_MARK) else ""
        text = text.removeprefix(_MARK)
        *raw, last = text.split("\n")
        self._lines = [line.removesuffix("\r") for line in raw]
        self._ends = ["\r\n" if line.endswith("\r") else "\n" for line in raw]
        self._open = bool(last)
        if last:
            self._lines.append(last)
            self._ends.append(self._ends[-1] if self._ends else "\n")
        self._searched = _framed(self._lines) if self._lines else ""

    def edited(self, path: str, blocks: list[Block]) -> Edit:
        places, problems = list[_Place](), list[str]()
        for block in blocks:
            try:
                places.append(self._place(block))
            except NotApplicable as error:
                problems += error.problems
        places.sort(key=lambda place: place.start)
        problems += (
            f"{later.block}: it overlaps with block {earlier.block.number}"
            for earlier, later in pairwise(places)
            if later.start < earlier.end
        )
        if problems:
            raise NotApplicable(problems)
        added = sum(len(place.lines) for place in places)
        deleted = sum(place.inner_end - place.inner_start for place in places)
        return Edit(path, self._before, self._with(places), added, deleted)

    def _place(self, block: Block) -> _Place:
        """Where a block stands, and which of its lines really change."""
        if block.search == block.replace:
            raise NotApplicable([f"{block}: REPLACE is the same as SEARCH"])
        start = self._only_start(block)
        old, new = block.search, block.replace
        head = _common(old, new)
        tail = _common(old[head:][::-1], new[head:][::-1])
        end = start + len(old)
        kept = new[head : len(new) - tail]
        return _Place(block, start, end, start + head, end - tail, kept)

    def _only_start(self, block: Block) -> int:
        needle = _framed(block.search)
        first = self._searched.find(needle)
        if first < 0:
            raise NotApplicable([f"{block}: SEARCH does not occur in the file{self._hint(block)}"])
        if self._searched.find(needle, first + 1) >= 0:
            raise NotApplicable(
                [f"{block}: SEARCH occurs more than once in the file; take more lines around it"]
            )
        return self._searched.count("\n", 0, first)

    def _hint(self, block: Block) -> str:
        """Where a SEARCH leaves the file, if its first line stands there only once."""
        if self._lines.count(block.search[0]) != 1:
            return ""
        start = self._lines.index(block.search[0])
        there = self._lines[start : start + len(block.search)]
        same = _common(tuple(there), block.search)
        if start + same >= len(self._lines):
            return f"; it goes on after the file's last line {start + same}"
        return f"; from line {start + same + 1} on the file has {there[same][:200]!a}"

    def _with(self, places: list[_Place]) -> bytes:
        lines, ends, at = list[str](), list[str](), 0
        for place in places:
            lines += (*self._lines[at : place.inner_start], *place.lines)
            ends += self._ends[at : place.inner_start]
            ends += [self._ends[place.start]] * len(place.lines)
            at = place.inner_end
        lines += self._lines[at:]
        ends += self._ends[at:]
        if self._open and ends:
            ends[-1] = ""
        pairs = zip(lines, ends, strict=True)
        text = self._mark + "".join(line + end for line, end in pairs)
        return text.encode("utf-8", "surrogateescape")


def _framed(lines: Iterable[str]) -> str:
    """Lines such that whole lines alone are found in others."""
    return "\n" + "\n".join(lines) + "\n"


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many lines at the start are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
