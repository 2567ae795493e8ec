"""What a fault puts into code, in the words of a language: the templates of ``faults.toml``.

A ``switched`` text holds markers that no source has: ``KEPT`` stands once for the code that it
replaces, so that faults nest; ``SWITCH`` for what is true where the fault is on; ``TEXT`` for "~"
where it is on, and "" where it is not.
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
    """A node and what takes its place; the fields are those of ``Fault``."""

    node: Node
    what: str
    plain: str
    switched: str
    by_value: bool


@dataclass(frozen=True)
class Rules:
    """The words of a language, as ``faults.toml`` explains them; "" is a kind that it has not."""

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
    """The rules of a language by its name; None where it has no table."""
    rules: dict[str, Any] = TABLE.entries["languages"].get(language, {})
    if "like" in rules:
        return read_rules(rules["like"])
    return Rules(**rules) if rules else None


def make_change(
    node: Node, what: str, template: str, rules: Rules, *, by_value: bool = True, other: str = ""
) -> Change:
    """A node with a template around or instead of it; ``what`` says it after the node's code, and
    ``other`` is the text for ``{next}``."""
    on = {"switch": rules.on, "text": rules.text_on, "kept": read_text(node), "next": other}
    asked = {"switch": SWITCH, "text": TEXT, "kept": KEPT, "next": other}
    plain, switched = (
        _WORD.sub(lambda word, words=words: words[word[1]], template)  # type: ignore[misc]
        for words in (on, asked)
    )
    return Change(node, _describe(what, node), plain, switched, by_value)


def _describe(what: str, node: Node) -> str:
    shown = " ".join(read_text(node).split())
    return f"`{shown[:_LONGEST_SHOWN]}{'…' * (len(shown) > _LONGEST_SHOWN)}` {what}"
