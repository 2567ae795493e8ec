"""One test, as all languages have it."""

from dataclasses import dataclass
from dataclasses import field as slot

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.languages import Language


@dataclass(frozen=True)
class Group:
    """A suite, class or module of tests with what is written on it."""

    name: str
    marks: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Test:
    """A test. ``marks`` are annotations, decorators and words such as ``skip`` or ``only`` that are
    written on it; ``groups`` the suites it stands in, each with its own marks. ``line`` to ``end``
    are its lines with the marks, from 1. ``body`` is None for one that is only announced,
    ``is_run`` false for a helper that is looked at as if it were one."""

    name: str
    qualified: str
    line: int
    end: int
    marks: tuple[str, ...]
    groups: tuple[Group, ...]
    path: str
    language: Language = slot(repr=False)
    node: Node = slot(repr=False)
    body: Node | None = slot(repr=False)
    is_run: bool = True
