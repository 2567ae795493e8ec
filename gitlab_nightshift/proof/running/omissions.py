"""Faults that omit a statement: a call, an augmented assignment, or a raised exception."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.running.decisions import read_operator
from gitlab_nightshift.proof.running.fault_places import (
    BLOCKS,
    BRANCHES,
    RAISING,
    TABLE,
    Place,
    is_message,
)
from gitlab_nightshift.proof.running.fault_rules import Change, Rules, make_change
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    find_field,
    list_children,
    read_chain,
    read_text,
)

_ASSIGNMENTS = TABLE.get_words("assignments")
_STATEMENTS = TABLE.get_words("statements")
_WRAPPERS = TABLE.get_words("wrappers")
_ASSIGNING = TABLE.get_pattern("assigning")
_WAITING = TABLE.get_pattern("waiting")
_CHANGING = TABLE.get_pattern("changing")


def list_omissions(place: Place, rules: Rules) -> Iterator[Change]:
    """Omit a statement, except in loops that might not end."""
    node = place.node
    if node.type in RAISING:
        if rules.raising and _is_guarded(place) and _fits(node, rules.raising):
            yield make_change(node, "left out", rules.raising, rules)
        return
    if place.looping or not _is_statement(node):
        return
    inner = node
    while inner.type in _WRAPPERS and len(children := list_children(inner)) == 1:
        inner = children[0]
    if rules.call and read_operator(inner) == "<<":
        yield make_change(inner, "left out", rules.call, rules)
    elif inner.type in CALLS and read_operator(inner) == "":
        names = [link.name for link in read_chain(inner)]
        if not rules.call or is_message(inner) or not names or _WAITING.search(names[-1]):
            return
        if "super" in names or names == ["this"]:
            return
        changing = _CHANGING.search(names[-1]) is not None
        template = rules.call
        yield make_change(
            _find_span(node, inner, template), "left out", template, rules, by_value=changing
        )
    elif inner.type in _ASSIGNMENTS and rules.assignment and _is_augmented(inner):
        template = rules.assignment
        if _steers_loop(inner, place.counted) or not _fits(node, template):
            return
        yield make_change(_find_span(node, inner, template), "left out", template, rules)


def _find_span(statement: Node, inner: Node, template: str) -> Node:
    """The expression if the template yields one, otherwise the statement with its semicolon."""
    return statement if re.search(r"\bif\b.*\{kept\}", template) else inner


def _is_statement(node: Node) -> bool:
    parent = node.parent
    if parent is None:
        return False
    named = node.type in _STATEMENTS
    return parent.type in BLOCKS and (named or list_children(parent)[-1:] != [node])


def _is_guarded(place: Place) -> bool:
    """True if it is in a branch, so that the function can end without it."""
    node = place.node.parent
    while node is not None and node != place.owner and node.type not in BRANCHES:
        node = node.parent
    return node is not None and node != place.owner


def _fits(statement: Node, template: str) -> bool:
    return not template.startswith("if not") or _is_alone(statement)


def _is_alone(node: Node) -> bool:
    """True if a statement has its lines to itself, which matters where indentation does."""
    before, after, block = node.prev_sibling, node.next_sibling, node.parent
    outer = block.parent if block else None
    return (
        (before is None or before.end_point[0] < node.start_point[0])
        and (after is None or after.start_point[0] > node.end_point[0])
        and (block is None or outer is None or block.start_point[0] > outer.start_point[0])
    )


def _steers_loop(assignment: Node, counted: frozenset[str]) -> bool:
    """True if a loop of the function ends by the assigned variable."""
    target = find_field(assignment, "left", "argument") or assignment.named_child(0)
    return not counted.isdisjoint(re.findall(r"\w+", read_text(target))[-1:])


def _is_augmented(node: Node) -> bool:
    named = find_field(node, "operator")
    words = [read_text(each) for each in node.children if not each.is_named]
    return any(_ASSIGNING.search(word) for word in [*words, read_text(named)])
