"""Faults that negate decisions: comparisons, negations, branch conditions, true and false."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.running.fault_places import (
    BLOCKS,
    BRANCHES,
    PARENTHESES,
    TABLE,
    Place,
    find_condition,
    is_never,
    unwrap_parentheses,
)
from gitlab_nightshift.proof.running.fault_rules import Change, Rules, make_change
from gitlab_nightshift.proof.syntax.nodes import find_field, list_children, read_text, walk

_BINARY = TABLE.get_words("binary")
_COMPARING = TABLE.get_words("comparing") | {"is not", "not in"}
_CONNECTING = TABLE.get_words("connecting")
_NEGATIONS = TABLE.get_words("negations")
_GUARDS = TABLE.get_pattern("guards")
_BOOLEANS = TABLE.get_words("booleans")


def list_decisions(place: Place, rules: Rules) -> Iterator[Change]:
    """Negate a branch condition, or a boolean value."""
    node = place.node
    template = rules.condition
    if node.type in BRANCHES and (condition := find_condition(node)):
        if (
            not _is_fixed(condition)
            and not is_never(node)
            and not (place.looping and _leaves_loop(node))
        ):
            by_value = _is_by_value(condition) and not _only_raises(node)
            yield make_change(condition, "negated", template, rules, by_value=by_value)
    elif is_decision(node, rules) and not (place.looping and _leaves_loop(_find_branch(node))):
        if not _is_in_condition(node):
            template = rules.comparison or template
        if rules.boolean and _is_surely_boolean(node):
            template = rules.boolean
        if not _is_whole_condition(node):
            yield make_change(node, "negated", template, rules, by_value=_is_by_value(node))


def is_decision(node: Node, rules: Rules) -> bool:
    """True for an expression that is boolean by its form."""
    if node.type in _BOOLEANS and read_text(node).lower() in ("true", "false"):
        return node.parent is None or node.parent.type not in ("expression_statement", *BLOCKS)
    if node.type in _NEGATIONS:
        if node.parent is not None and node.parent.type == "navigation_expression":
            return False  # Kotlin's grammar takes `!a.b` for `(!a).b`
        return node.type == "not_operator" or read_text(node)[:1] == "!"
    operator = read_operator(node)
    connects = rules.connectives and operator in _CONNECTING
    return operator in _COMPARING or (connects and not _is_in_condition(node))


def _is_surely_boolean(node: Node) -> bool:
    """True if no operator overload can return anything but a boolean."""
    sure = read_operator(node).split()[:1]
    return node.type in _BOOLEANS or node.type in _NEGATIONS or sure in (["in"], ["is"], ["not"])


def read_operator(node: Node) -> str:
    """The operator of a binary expression; "" for anything else."""
    if node.type not in _BINARY:
        return ""
    words = [read_text(each) for each in node.children if not each.is_named]
    named = find_field(node, "operator", "operators")
    return " ".join(words).strip() or (read_text(named) if named else "")


def _is_in_condition(node: Node) -> bool:
    """True if only the truth of a value counts, as in a branch condition."""
    parent = node.parent
    while parent is not None and (
        parent.type in PARENTHESES
        or parent.type in _NEGATIONS
        or read_operator(parent) in _CONNECTING
    ):
        node, parent = parent, parent.parent
    return _is_whole_condition(unwrap_parentheses(node))


def _is_whole_condition(node: Node) -> bool:
    outer = node
    while outer.parent is not None and outer.parent.type in PARENTHESES:
        outer = outer.parent
    branch = outer.parent
    return branch is not None and branch.type in BRANCHES and find_condition(branch) == node


def _is_fixed(condition: Node) -> bool:
    return (
        "let" in condition.type
        or "assignment" in condition.type
        or condition.type == "match_pattern"
    )


def _is_by_value(condition: Node) -> bool:
    text = read_text(condition)
    return _GUARDS.search(text) is None or "err" in text


def _only_raises(branch: Node) -> bool:
    """True if the branch does nothing but raise: negated, everything fails with that."""
    body = find_field(branch, "consequence", "body")
    first = next(iter(list_children(body)), None) if body and body.type in BLOCKS else body
    if first is not None and first.type == "statement_list":
        first = next(iter(list_children(first)), None)
    return first is not None and re.match(r"(raise|throw|panic)\b", read_text(first)) is not None


def _find_branch(node: Node) -> Node | None:
    parent = node.parent
    while parent is not None and parent.type not in BRANCHES and parent.type not in BLOCKS:
        parent = parent.parent
    return parent if parent is not None and parent.type in BRANCHES else None


def _leaves_loop(branch: Node | None) -> bool:
    """True if a branch may leave a loop: negated, the loop might not end."""
    return branch is not None and any(
        each.type.startswith(("break", "return", "continue")) for each in walk(branch)
    )
