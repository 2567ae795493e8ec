"""Numbers off by one, and texts with one more character, where code goes on with them."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.running.fault_places import BLOCKS, INTERPOLATIONS, TABLE, TEXTS, Place
from gitlab_nightshift.proof.running.fault_rules import Change, Rules, make_change
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    find_field,
    list_children,
    read_chain,
    read_text,
    walk,
)

_BINARY = TABLE.get_words("binary")
_NUMBERS = TABLE.get_words("numbers")
_SUBSCRIPTS = TABLE.get_words("subscripts")
_WAITING = TABLE.get_pattern("waiting")
_LOOKUPS = TABLE.get_pattern("lookups")
_NUMBER = re.compile(r"\d{1,9}(\.\d+)?")


def list_literals(place: Place, rules: Rules) -> Iterator[Change]:
    """A number or a text that is another one."""
    node = place.node
    text = read_text(node)
    by_value = node.parent is not None and node.parent.type not in _SUBSCRIPTS
    if node.type in _NUMBERS and _NUMBER.fullmatch(text) and not place.looping:
        template = rules.literal or rules.number
        if template and _may_grow(node, rules) and not _is_argument_of(node, _WAITING):
            whole, dot, rest = text.partition(".")
            other = f"{int(whole) + 1}{dot}{rest}"
            yield make_change(node, "off by one", template, rules, by_value=by_value, other=other)
    elif node.type in TEXTS and rules.text and _computes(node):
        plain = not any(each.type in INTERPOLATIONS for each in walk(node))
        template = rules.literal if rules.literal and plain else rules.text
        last = max(text.rfind(quote) for quote in "\"'`")
        if text.endswith(('"""', "'''")):
            last -= 2
        other, what = f"{text[:last]}~{text[last:]}", 'with "~" at its end'
        yield make_change(node, what, template, rules, by_value=by_value, other=other)


def _may_grow(number: Node, rules: Rules) -> bool:
    """True where a number is a value, and of a type that the language's table can add to."""
    parent = number.parent
    if parent is None or "pattern" in parent.type or find_field(parent, "length") == number:
        return False
    if find_field(parent, "field", "key", "property") == number:
        return False
    if not rules.number_beside or parent.type in rules.number_in.split():
        return True
    return parent.type in _BINARY and any(
        re.match(rules.number_beside, read_text(each)) for each in list_children(parent)
    )


def _computes(text: Node) -> bool:
    """True for a text that code goes on with: no docstring, directive, name or part of one."""
    parent = text.parent
    if parent is None or parent.type in {*TEXTS, *BLOCKS, "expression_statement"}:
        return False
    if read_text(text)[:2].lower() in ("b'", 'b"', "br", "rb") or _is_argument_of(text, _LOOKUPS):
        return False
    if parent.type == "call_expression" and find_field(parent, "arguments") == text:
        return False
    return find_field(parent, "key") != text and "import" not in parent.type


def _is_argument_of(node: Node, pattern: re.Pattern[str]) -> bool:
    call = node.parent
    for _ in range(3):
        if call is None or call.type in CALLS:
            break
        call = call.parent
    if call is None or call.type not in CALLS:
        return False
    links = read_chain(call)
    return bool(links and pattern.search(links[-1].name))
