"""One test, in a form common to all languages."""

from dataclasses import dataclass
from dataclasses import field as slot

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.languages import Language


@dataclass(frozen=True)
class Group:
    """A suite, class or module of tests, with its own marks."""

    name: str
    marks: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Test:
    """A test. ``marks`` are its annotations, decorators and words such as ``skip`` or ``only``;
    ``groups`` are the suites around it. ``line`` to ``end`` are its lines including the marks, from
    1. ``body`` is None for a test without code (``it.todo``), ``is_run`` is False for a helper that
    is read as if it were a test."""

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
