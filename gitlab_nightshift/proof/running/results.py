"""Faults in results: another value of the declared type, an empty one, or none."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.running.decisions import is_decision
from gitlab_nightshift.proof.running.fault_places import (
    BLOCKS,
    TABLE,
    TEXTS,
    Place,
    is_message,
    unwrap_parentheses,
)
from gitlab_nightshift.proof.running.fault_rules import Change, Rules, make_change
from gitlab_nightshift.proof.syntax.nodes import find_field, list_children, read_text

_RETURNS = TABLE.get_words("returns")
_NUMBERS = TABLE.get_words("numbers")
_EMPTY = TABLE.get_pattern("empty", re.DOTALL)


def list_results(place: Place, rules: Rules) -> Iterator[Change]:
    """Replace what a function returns."""
    node = place.node
    if rules.zero and node.type in _RETURNS:
        yield from _list_zero_results(place, rules)
        return
    value = _find_result(place, rules)
    if value is None or is_message(value) or is_decision(unwrap_parentheses(value), rules):
        return
    inner = unwrap_parentheses(value)
    literals = _NUMBERS | (TEXTS if rules.text else frozenset())
    if inner.type in literals or _EMPTY.fullmatch(read_text(inner)):
        return
    if found := _find_typed_result(_read_result_type(place.owner), rules):
        yield make_change(value, "returned as another value", found, rules)
    elif (empty := rules.kinds.get(inner.type)) and list_children(inner):
        yield make_change(value, "returned as an empty one", empty, rules)
    elif rules.nothing and not empty and _may_be_nothing(inner, place.owner, rules):
        yield make_change(value, "returned as nothing", rules.nothing, rules, by_value=False)


def _may_be_nothing(value: Node, owner: Node, rules: Rules) -> bool:
    return (
        value.type not in ("none", "null", "null_literal", "nil", "undefined")
        and re.fullmatch(rules.primitive, _read_result_type(owner)) is None
    )


def _find_result(place: Place, rules: Rules) -> Node | None:
    """The value of a return statement, or the last expression of a body."""
    node = place.node
    if node.type in _RETURNS:
        values = list_children(node)
        if values and values[0].type == "argument_list":
            values = list_children(values[0])
        return values[0] if len(values) == 1 else None
    body = find_field(place.owner, "body") or next(
        (each for each in place.owner.named_children if each.type.endswith("body")), None
    )
    if body is None or not (rules.tails or (body == node and place.owner.type == "arrow_function")):
        return None
    last = (
        list_children(body)[-1:] if body.type in BLOCKS or body.type == "function_body" else [body]
    )
    return node if body in (node, node.parent) and last == [node] and _is_expression(node) else None


def _is_expression(node: Node) -> bool:
    return (
        node.type not in BLOCKS
        and not node.type.endswith(
            ("statement", "declaration", "definition", "item", "assignment", "clause", "body")
        )
        and node.type
        not in (*_RETURNS, "if", "unless", "case", "while", "begin", "rescue", "ensure")
    )


def _read_result_type(owner: Node) -> str:
    """The declared type of a function's result; "" without one."""
    declared = find_field(owner, "return_type", "returns", "type", "result")
    if declared is None and owner.type == "function_declaration":
        declared = next(
            (each for each in list_children(owner) if each.type in ("user_type", "nullable_type")),
            None,
        )
    return read_text(declared).lstrip(":-> ").strip("\"'")


def _find_typed_result(declared: str, rules: Rules) -> str:
    for pattern, template in rules.types:
        if found := re.fullmatch(pattern, declared, re.DOTALL):
            return str(template).replace("{type}", found.groupdict().get("type") or "")
    return ""


def _list_zero_results(place: Place, rules: Rules) -> Iterator[Change]:
    """``return a, b`` as the zero values of the declared types (Go)."""
    types = _list_result_types(place.owner)
    values = [each for group in list_children(place.node) for each in list_children(group)]
    if types == ["bool"] and len(values) == 1 and not is_decision(values[0], rules):
        yield make_change(values[0], "negated", rules.condition, rules)
    changed = [
        declared
        for declared, value in zip(types, values, strict=False)
        if not re.fullmatch(rules.zeros, read_text(value))
    ]
    if len(types) != len(values) or not changed or types == ["bool"] or "\n" in "".join(types):
        return
    zeros = ", ".join(rules.zero.replace("{type}", each) for each in types)
    by_value = all(re.fullmatch(rules.certain, each) for each in changed)
    template = rules.results.replace("{zeros}", zeros)
    yield make_change(place.node, "returned as zero values", template, rules, by_value=by_value)


def _list_result_types(owner: Node) -> list[str]:
    result = find_field(owner, "result")
    if result is None or result.type != "parameter_list":
        return [read_text(result)] if result else []
    found = []
    for each in list_children(result):
        names = each.children_by_field_name("name")
        found += [read_text(find_field(each, "type"))] * max(len(names), 1)
    return found
