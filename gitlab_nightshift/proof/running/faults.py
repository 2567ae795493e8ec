"""A fault that can be planted into a function, permanently on or behind a switch, and the templates
of its code, which are in the ``faults.toml`` of each language.

A ``switched`` text has markers that cannot occur in source code: ``KEPT`` for the replaced code, so
that faults nest; ``SWITCH`` for an expression that is true while the fault is on; ``TEXT`` for one
that is "~" while it is on, else "".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.proof.syntax.functions import Function
from gitlab_nightshift.proof.syntax.languages import read_language_table
from gitlab_nightshift.proof.syntax.nodes import read_text

KEPT = "\0kept\0"
SWITCH = "\0switch\0"
TEXT = "\0text\0"
_LONGEST_SHOWN = 60
_WORD = re.compile(r"\{(switch|text|kept|next)\}")


@dataclass(frozen=True)
class Fault:
    """One fault in one function; spans are bytes of the original file.

    ``path`` is raw, ``line`` counts from 1, ``what`` is for people, ``function`` is the qualified
    name of the function around it. ``plain`` replaces the bytes ``start`` to ``end`` if the fault
    is permanently on. ``switched`` replaces them if a switch turns it on; it has the markers
    above, and is "" if the language has no switch. ``by_value``: a value or a
    decision is wrong, so an assertion likely fails; otherwise an exception is likely.
    """

    path: str
    line: int
    what: str
    function: str
    start: int
    end: int
    plain: str
    switched: str
    by_value: bool


@dataclass(frozen=True)
class Mutation:
    """A node and its replacement; the fields are those of ``Fault``."""

    node: Node
    what: str
    plain: str
    switched: str
    by_value: bool


@dataclass(frozen=True)
class FaultTemplates:
    """A language's templates, explained in ``languages/README.md``; "" for a kind of fault that it
    lacks."""

    on: str
    condition: str
    comparison: str = ""
    boolean: str = ""
    literal: str = ""
    number: str = ""
    number_beside: str = ""
    number_in: str = ""
    text: str = ""
    text_on: str = '"~"'
    call: str = ""
    assignment: str = ""
    raising: str = ""
    nothing: str = ""
    types: Sequence[tuple[str, str]] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    primitive: str = "-"
    zero: str = ""
    zeros: str = ""
    certain: str = ""
    results: str = ""
    tails: bool = False
    connectives: bool = False


@cache
def read_templates(language: str) -> FaultTemplates | None:
    """The templates of a language by its name; None without a table for it."""
    table = read_language_table(language, "faults")
    return FaultTemplates(**table) if table else None


def mutate(
    node: Node,
    what: str,
    template: str,
    language: FaultTemplates,
    *,
    by_value: bool = True,
    other: str = "",
) -> Mutation:
    """Apply a template to a node. ``what`` describes the fault, after the node's code; ``other``
    fills ``{next}``."""
    kept = read_text(node)
    on = {"switch": language.on, "text": language.text_on, "kept": kept, "next": other}
    markers = {"switch": SWITCH, "text": TEXT, "kept": KEPT, "next": other}
    plain, switched = (
        _WORD.sub(lambda word, words=words: words[word[1]], template)  # type: ignore[misc]
        for words in (on, markers)
    )
    shown = " ".join(kept.split())
    shown = shown[:_LONGEST_SHOWN] + "…" * (len(shown) > _LONGEST_SHOWN)
    return Mutation(node, f"`{shown}` {what}", plain, switched, by_value)


def move_fault(fault: Fault, before: Side, after: Side) -> Fault | None:
    """The fault as it is in another version of the file.

    None if its function is gone, was changed, or occurs twice.
    """
    home = next((each for each in before.functions if _holds(each, fault)), None)
    if home is None:
        return None
    same = [each for each in after.functions if _is_same(each, home)]
    if len(same) != 1 or sum(_is_same(each, home) for each in before.functions) != 1:
        return None
    offset = same[0].node.start_byte - home.node.start_byte
    lines = same[0].node.start_point[0] - home.node.start_point[0]
    return replace(
        fault,
        path=after.path,
        line=fault.line + lines,
        start=fault.start + offset,
        end=fault.end + offset,
    )


def _holds(function: Function, fault: Fault) -> bool:
    node = function.node
    return (
        not function.is_class
        and function.qualified == fault.function
        and node.start_byte <= fault.start
        and fault.end <= node.end_byte
    )


def _is_same(function: Function, other: Function) -> bool:
    return (
        function.qualified == other.qualified
        and function.marks == other.marks
        and function.node.text == other.node.text
    )
