"""A change as the red flags look at it: both sides of every file, and what is around them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from gitlab_nightshift.registry.flag_registry import Level
from gitlab_nightshift.repository.blobs import read_tree_file
from gitlab_nightshift.repository.difference import ChangedFile, read_difference
from gitlab_nightshift.repository.git import split_names
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.file_names import format_path


@dataclass(frozen=True)
class Changeset:
    """All files of a change, with their texts. Its tree and patch, which publish may hold, are
    ``repository/capture.py: CapturedChange``.

    ``read`` gives the bytes of any file after the change, None where there is none; ``paths`` are
    all files after it. Both cost a look into git: only for a flag that needs more than the files.
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
    """What a change is judged by. ``category`` is "" and ``selected`` is empty where unknown;
    ``recent_files`` are those that the last commits touched, ``by_people`` is true where no agent
    made the change."""

    settings: Settings
    category: str = ""
    selected: tuple[str, ...] = ()
    recent_files: frozenset[str] = frozenset()
    ci_config: str = ""
    by_people: bool = False


@dataclass(frozen=True)
class RuleViolation:
    """One place where a rule is broken. ``line`` is of the new side (of the old one where the
    line is gone), 0 for the whole file; ``detail`` is one sentence that helps the next attempt;
    ``level`` is set where this place weighs more or less than the rule's usual one. ``certain`` is
    true where a reviewer would block whatever else the change does, false where he could only ask,
    None where the rest of the change decides (``flags/explanations.py``)."""

    file: str
    line: int
    detail: str
    level: Level | None = None
    certain: bool | None = None


Rule = Callable[[Changeset, Context], Iterator[RuleViolation]]
"""A rule looks at a change and yields what breaks it; it reads nothing else and never raises."""
