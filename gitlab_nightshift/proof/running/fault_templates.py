"""The code that a fault inserts, in the syntax of a language: the templates of its ``faults.toml``.

A ``switched`` text has markers that cannot occur in source code: ``KEPT`` for the replaced code, so
that faults nest; ``SWITCH`` for an expression that is true while the fault is on; ``TEXT`` for one
that is "~" while it is on, else "".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.languages import read_language_table
from gitlab_nightshift.proof.syntax.nodes import read_text

KEPT = "\0kept\0"
SWITCH = "\0switch\0"
TEXT = "\0text\0"
_LONGEST_SHOWN = 60
_WORD = re.compile(r"\{(switch|text|kept|next)\}")


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
