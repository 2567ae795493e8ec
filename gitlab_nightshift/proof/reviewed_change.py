"""A change as the red flags see it: both sides of every file, and its context."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from gitlab_nightshift.registry.flag_registry import Level
from gitlab_nightshift.repository.blobs import read_tree_file
from gitlab_nightshift.repository.difference import ChangedFile, read_difference
from gitlab_nightshift.repository.git import split_names
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.file_names import format_path

_T = TypeVar("_T")


@dataclass(frozen=True)
class Changeset:
    """All files of a change, with their contents. For its tree and patch see
    ``repository/capture.py: CapturedChange``.

    ``read`` returns any file's bytes after the change, None if there is no such file; ``paths``
    lists all files after it. Both run git, so only flags that need unchanged files call them.
    """

    files: tuple[ChangedFile, ...]
    read: Callable[[str], bytes | None] = field(repr=False, default=lambda _path: None)
    paths: Callable[[], frozenset[str]] = field(repr=False, default=frozenset)


def read_change(repository: Repository, old: str, new: str) -> Changeset:
    """The change between two trees or commits. Raises GitError."""
    files = read_difference(repository, old, new)

    @cache
    def list_paths() -> frozenset[str]:
        listed = repository.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", new)
        return frozenset(map(format_path, split_names(listed)))

    @cache
    def read(path: str) -> bytes | None:
        return read_tree_file(repository, new, path)

    return Changeset(files, read, list_paths)


@dataclass(frozen=True)
class Context:
    """What a change is judged by. ``category`` is "" and ``selected`` is empty if unknown;
    ``recent_files`` were touched by the last commits; ``by_people``: no agent made the change."""

    settings: Settings
    category: str = ""
    selected: tuple[str, ...] = ()
    recent_files: frozenset[str] = frozenset()
    ci_config: str = ""
    by_people: bool = False


@dataclass(frozen=True)
class RuleViolation:
    """One place where a change breaks a rule.

    ``line`` is on the new side, or on the old side for a deleted line; 0 is the whole file.
    ``detail`` is a sentence that helps the next attempt. ``level`` overrides the flag's level.
    ``certain``: True if a reviewer would block the change whatever else it does, False if they
    could only ask, None if the rest of the change decides (``reading/__init__.py``).
    """

    file: str
    line: int
    detail: str
    level: Level | None = None
    certain: bool | None = None


def take(counts: Counter[_T], key: _T) -> bool:
    """Remove one occurrence from the counts; False if there is none.

    Rules that tell what a change adds take what was there before it from this count.
    """
    found = counts[key] > 0
    counts[key] -= found
    return found


Rule = Callable[[Changeset, Context], Iterator[RuleViolation]]
"""Yields the violations of one rule; it reads nothing but the change, and should never raise."""
