"""One assertion, as all languages have it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dataclasses import field as slot

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.assertion_words import EQUAL
from gitlab_nightshift.proof.syntax.conditions import list_demands
from gitlab_nightshift.proof.syntax.nodes import list_tokens, read_line_number, read_text


@dataclass(frozen=True)
class Assertion:
    """One demand. ``key`` is its code without white space, ``word`` says what it demands
    (``equal``, ``raises``, ``helper`` …), ``parts`` are what it looks at, then what it compares
    that with."""

    line: int
    key: tuple[str, ...]
    word: str
    negated: bool = False
    parts: tuple[Node, ...] = slot(repr=False, compare=False, kw_only=True, default=())

    @property
    def compares(self) -> bool:
        """True where it says what a value is, false where it only says something of it."""
        return self.word in EQUAL and not self.negated and len(self.parts) > 1

    @property
    def subjects(self) -> frozenset[str]:
        """What it looks at: either side of a comparison, as libraries differ in their order."""
        return frozenset(map(read_text, self.parts[:2]))


def build_assertion(
    node: Node,
    word: str,
    parts: Sequence[Node] = (),
    negated: bool = False,
    key: tuple[str, ...] = (),
) -> Assertion:
    """The assertion that a node makes; ``key`` where that is more than its code."""
    return Assertion(
        read_line_number(node), key or list_tokens(node), word, negated, parts=tuple(parts)
    )


def read_condition(
    node: Node, condition: Node, flip: bool = False, key: tuple[str, ...] = ()
) -> Iterator[Assertion]:
    """The demands of a condition that a node asserts, or of its opposite."""
    for each in list_demands(condition, flip):
        yield build_assertion(node, each.word, each.parts, each.negated, key)
