"""A change as the red flags look at it: both sides of every file, and what is around them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

from gitlab_nightshift.host.difference import FileDifference, read_difference
from gitlab_nightshift.host.git import split_names
from gitlab_nightshift.host.paths import display
from gitlab_nightshift.host.repository import Repository, read_blobs
from gitlab_nightshift.records import Level
from gitlab_nightshift.settings import Settings


@dataclass(frozen=True)
class Line:
    """A line of a file: its number, from 1, and its text without the end of line."""

    number: int
    text: str


class ChangedFile:
    """One file of a change with its texts; ``path`` and ``old_path`` are as they may be shown."""

    def __init__(self, difference: FileDifference) -> None:
        self.difference = difference
        self.path = display(difference.path)
        self.old_path = display(difference.old_path)
        self.status = difference.status
        self.binary = difference.binary

    @cached_property
    def old_lines(self) -> list[str]:
        """All lines before; none for a new or binary file."""
        return _lines(self.difference.old, self.binary)

    @cached_property
    def new_lines(self) -> list[str]:
        """All lines after; none for a deleted or binary file."""
        return _lines(self.difference.new, self.binary)

    @cached_property
    def deleted(self) -> list[Line]:
        """The lines that went, with their numbers before."""
        return [Line(n, self.old_lines[n - 1]) for n in self.difference.deleted]

    @cached_property
    def added(self) -> list[Line]:
        """The lines that came, with their numbers after."""
        return [Line(n, self.new_lines[n - 1]) for n in self.difference.added]


def _lines(data: bytes | None, binary: bool) -> list[str]:
    if data is None or binary:
        return []
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


@dataclass(frozen=True)
class Change:
    """All files of a change.

    ``read`` gives the bytes of any file after the change, None where there is none; ``paths`` are
    all files after it. Both cost a look into git: only for a flag that needs more than the files.
    """

    files: tuple[ChangedFile, ...]
    read: Callable[[str], bytes | None] = field(repr=False, default=lambda _path: None)
    paths: Callable[[], frozenset[str]] = field(repr=False, default=frozenset)

    @property
    def lines(self) -> int:
        """Added plus deleted lines; a moved file counts whole, as in ``max_diff_lines``."""
        return sum(map(_size, self.files))


def read_change(repository: Repository, old: str, new: str) -> Change:
    """The change between two trees or commits. Raises GitError."""
    files = tuple(map(ChangedFile, read_difference(repository, old, new)))

    @cache
    def paths() -> frozenset[str]:
        listed = repository.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", new)
        return frozenset(map(display, split_names(listed)))

    @cache
    def read(path: str) -> bytes | None:
        entries = split_names(repository.run("ls-tree", "-z", "--full-tree", new, "--", path))
        blobs = [entry.split("\t")[0].split(" ")[2] for entry in entries if " blob " in entry]
        return read_blobs(repository, blobs).get(blobs[0]) if blobs else None

    return Change(files, read, paths)


def _size(file: ChangedFile) -> int:
    if file.status == "R":
        return len(file.old_lines) + len(file.new_lines)
    return len(file.deleted) + len(file.added)


@dataclass(frozen=True)
class Context:
    """What a change is held against. ``category`` is "" and ``selected`` is empty where unknown;
    ``recent_files`` are those that the last commits touched."""

    settings: Settings
    category: str = ""
    selected: tuple[str, ...] = ()
    recent_files: frozenset[str] = frozenset()
    ci_config: str = ""


@dataclass(frozen=True)
class Found:
    """One place where a rule is broken. ``line`` is of the new side (of the old one where the
    line is gone), 0 for the whole file; ``detail`` is one sentence that helps the next attempt;
    ``level`` is set where this place weighs more or less than the rule's usual one."""

    file: str
    line: int
    detail: str
    level: Level | None = None


Rule = Callable[[Change, Context], Iterator[Found]]
"""A rule looks at a change and yields what breaks it; it reads nothing else and never raises."""
