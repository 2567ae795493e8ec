"""One assertion, as all languages have it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as slot

from tree_sitter import Node

from gitlab_nightshift.verdict.syntax import conditions
from gitlab_nightshift.verdict.syntax.assertion_words import (
    BROAD,
    CLOSE,
    EXACT,
    NOTHING,
    PARTIAL,
    PRESENT,
    TRUTHY,
    TYPE,
)
from gitlab_nightshift.verdict.syntax.nodes import (
    list_tokens,
    read_line_number,
    read_text,
)


@dataclass(frozen=True)
class Assertion:
    """One demand. ``key`` is its code without white space, ``word`` says what it demands
    (``equal``, ``raises``, ``helper`` …), ``rank`` how much (``assertion_words.py``). ``subject``
    and ``expected`` are pieces of code; expected is empty where there is none."""

    line: int
    key: tuple[str, ...]
    word: str
    rank: int
    subject: str
    expected: tuple[str, ...]
    negated: bool = False
    node: Node = slot(repr=False, compare=False, kw_only=True)
    parts: tuple[Node, ...] = slot(repr=False, compare=False, kw_only=True, default=())


Helpers = Mapping[str, int]
"""Names of functions that assert by themselves, with the rank of the strongest in them."""


def rank_expected(expected: tuple[str, ...]) -> int:
    """What is expected may itself say little: ``expect.any(Number)``, ``approx(3)``."""
    said = "".join(expected[:1])
    if said.startswith(("expect.anything", "anything", "ANY", "mock.ANY", "any(")):
        return PRESENT
    if said.startswith(("expect.any(", "instance_of", "a_kind_of", "an_instance_of")):
        return TYPE
    if (
        "expect.objectContaining" in said
        or "expect.arrayContaining" in said
        or "expect.stringContaining" in said
    ):
        return PARTIAL
    if "approx(" in said:
        return CLOSE
    return EXACT


def rank_exception(said: tuple[str, ...]) -> int:
    said = tuple(each for each in said if "=>" not in each and "->" not in each)
    named = [each for each in said if each.split("(")[0] not in BROAD]
    if not said:
        return TRUTHY
    if not named:
        return TYPE
    return EXACT if len(said) > 1 or named[0][:1] in "\"'`/r" else CLOSE


def read_texts(nodes: tuple[Node, ...] | list[Node] | None) -> tuple[str, ...]:
    return tuple(read_text(node) for node in nodes or ())


def build_assertion(
    node: Node,
    word: str,
    rank: int,
    subject: tuple[str, ...],
    expected: tuple[str, ...],
    negated: bool = False,
    parts: tuple[Node, ...] = (),
    key: tuple[str, ...] = (),
) -> Assertion:
    return Assertion(
        read_line_number(node),
        key or list_tokens(node),
        word,
        max(rank, NOTHING),
        subject[0] if subject else "",
        expected,
        negated,
        node=node,
        parts=parts,
    )


def read_condition(node: Node, args: list[Node], *, flip: bool = False) -> Iterator[Assertion]:
    """The demands of a condition: each part of a conjunction is one."""
    for arg in args:
        for demand in conditions.list_demands(arg, flip):
            yield build_demand_assertion(node, demand)


def build_demand_assertion(
    node: Node, demand: conditions.Demand, key: tuple[str, ...] = ()
) -> Assertion:
    """The assertion of one demand."""
    parts = (demand.subject, *demand.expected) if demand.subject else ()
    return build_assertion(
        node,
        demand.word,
        demand.rank,
        (read_text(demand.subject),),
        read_texts(demand.expected),
        demand.negated,
        parts,
        key,
    )
