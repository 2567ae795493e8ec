"""The code that a fault inserts, in the syntax of a language: the templates of ``faults.toml``.

A ``switched`` text has markers that cannot occur in source code: ``KEPT`` for the replaced code, so
that faults nest; ``SWITCH`` for an expression that is true while the fault is on; ``TEXT`` for one
that is "~" while it is on, else "".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tree_sitter import Node

from gitlab_nightshift.proof.running.fault_places import TABLE
from gitlab_nightshift.proof.syntax.nodes import read_text

KEPT = "\0kept\0"
SWITCH = "\0switch\0"
TEXT = "\0text\0"
_LONGEST_SHOWN = 60
_WORD = re.compile(r"\{(switch|text|kept|next)\}")


@dataclass(frozen=True)
class Change:
    """A node and its replacement; the fields are those of ``Fault``."""

    node: Node
    what: str
    plain: str
    switched: str
    by_value: bool


@dataclass(frozen=True)
class Rules:
    """A language's templates, explained in ``faults.toml``; "" for a kind of fault that it
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
def read_rules(language: str) -> Rules | None:
    """The rules of a language by its name; None without a table for it."""
    rules: dict[str, Any] = TABLE.entries["languages"].get(language, {})
    if "like" in rules:
        return read_rules(rules["like"])
    return Rules(**rules) if rules else None


def make_change(
    node: Node, what: str, template: str, rules: Rules, *, by_value: bool = True, other: str = ""
) -> Change:
    """Apply a template to a node. ``what`` describes the fault, after the node's code; ``other``
    fills ``{next}``."""
    on = {"switch": rules.on, "text": rules.text_on, "kept": read_text(node), "next": other}
    markers = {"switch": SWITCH, "text": TEXT, "kept": KEPT, "next": other}
    plain, switched = (
        _WORD.sub(lambda word, words=words: words[word[1]], template)  # type: ignore[misc]
        for words in (on, markers)
    )
    return Change(node, _describe(what, node), plain, switched, by_value)


def _describe(what: str, node: Node) -> str:
    shown = " ".join(read_text(node).split())
    return f"`{shown[:_LONGEST_SHOWN]}{'…' * (len(shown) > _LONGEST_SHOWN)}` {what}"
