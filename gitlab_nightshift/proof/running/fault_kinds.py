"""The kinds of faults: decisions, results, numbers, texts, and statements left out.

A change's ``switched`` text holds markers that no source has: ``KEPT`` stands once for the code
that it replaces, so that faults nest; ``SWITCH`` for what is true where the fault is on; ``TEXT``
for a text that is only there where it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tree_sitter import Node

from gitlab_nightshift.proof.running.fault_places import (
    BLOCKS,
    BRANCHES,
    PARENTHESES,
    TABLE,
    TEXTS,
    Place,
    find_condition,
    is_told,
    unwrap_parentheses,
)
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    find_field,
    list_children,
    read_chain,
    read_text,
    walk,
)

KEPT = "\0kept\0"
SWITCH = "\0switch\0"
TEXT = "\0text\0"
_BINARY = TABLE.get_words("binary")
_COMPARING = TABLE.get_words("comparing") | {"is not", "not in"}
_CONNECTING = TABLE.get_words("connecting")
_NEGATIONS = TABLE.get_words("negations")
_RETURNS = TABLE.get_words("returns")
_NUMBERS = TABLE.get_words("numbers")
_ASSIGNMENTS = TABLE.get_words("assignments")
_WRAPPERS = TABLE.get_words("wrappers")
_SUBSCRIPTS = TABLE.get_words("subscripts")
_GUARDS = TABLE.get_pattern("guards")
_ASSIGNING = TABLE.get_pattern("assigning")
_WAITING = TABLE.get_pattern("waiting")
_CHANGING = TABLE.get_pattern("changing")
_LOOKUPS = TABLE.get_pattern("lookups")
_BOOLEANS = TABLE.get_words("booleans")
_NUMBER = re.compile(r"\d{1,9}(\.\d+)?")
_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Change:
    """A node and what takes its place; the fields are those of ``Fault``."""

    node: Node
    what: str
    plain: str
    switched: str
    by_value: bool


@cache
def _read_rules(language: str) -> dict[str, Any]:
    rules: dict[str, Any] = TABLE.entries["languages"].get(language, {})
    return _read_rules(rules["like"]) | rules if "like" in rules else rules


def list_changes(place: Place, language: str, function: Function) -> Iterator[Change]:
    """The faults that one node can have, none where the language has no table."""
    rules = _read_rules(language)
    if rules:
        yield from _list_decisions(place, rules)
        yield from _list_results(place, rules)
        yield from _list_literals(place, rules)
        yield from _list_omissions(place, rules, function)


def _change(
    node: Node, what: str, template: str, rules: dict[str, Any], *, by_value: bool = True
) -> Change:
    on = str(rules["on"])
    plain = template.replace("{switch}", on).replace("{text}", str(rules.get("text_on", '"~"')))
    switched = template.replace("{switch}", SWITCH).replace("{text}", TEXT).replace("{kept}", KEPT)
    code = read_text(node)
    return Change(node, _name(what, node), plain.replace("{kept}", code), switched, by_value)


def _name(what: str, node: Node) -> str:
    shown = " ".join(read_text(node).split())
    return f"`{shown[:_LONGEST_SHOWN]}{'…' * (len(shown) > _LONGEST_SHOWN)}` {what}"


# --- Decisions ----------------------------------------------------------------------------------


def _list_decisions(place: Place, rules: dict[str, Any]) -> Iterator[Change]:
    node = place.node
    template = str(rules["condition"])
    if node.type in BRANCHES and (condition := find_condition(node)):
        if not _is_fixed(condition) and not (place.looping and _leaves_loop(node)):
            by_value = _is_by_value(condition) and not _only_raises(node)
            yield _change(condition, "negated", template, rules, by_value=by_value)
    elif _is_decision(node, rules) and not (place.looping and _leaves_loop(_find_branch(node))):
        if not _is_in_condition(node):
            template = str(rules.get("comparison", template))
        if not _is_whole_condition(node):
            yield _change(node, "negated", template, rules, by_value=_is_by_value(node))


def _is_decision(node: Node, rules: dict[str, Any]) -> bool:
    """True for a value that is true or false by its form."""
    if node.type in _BOOLEANS and read_text(node).lower() in ("true", "false"):
        return node.parent is None or node.parent.type not in ("expression_statement", *BLOCKS)
    if node.type in _NEGATIONS:
        if node.parent is not None and node.parent.type == "navigation_expression":
            return False  # Kotlin's grammar takes `!a.b` for `(!a).b`
        return node.type == "not_operator" or read_text(node)[:1] == "!"
    operator = _read_operator(node)
    connects = bool(rules.get("connectives")) and operator in _CONNECTING
    return operator in _COMPARING or (connects and not _is_in_condition(node))


def _read_operator(node: Node) -> str:
    if node.type not in _BINARY:
        return ""
    words = [read_text(each) for each in node.children if not each.is_named]
    named = find_field(node, "operator", "operators")
    return " ".join(words).strip() or (read_text(named) if named else "")


def _is_in_condition(node: Node) -> bool:
    """True where only the truth of a value counts: it is a part of what a branch decides by."""
    parent = node.parent
    while parent is not None and (
        parent.type in PARENTHESES
        or parent.type in _NEGATIONS
        or _read_operator(parent) in _CONNECTING
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
    return "let" in condition.type or "assignment" in condition.type or condition.type == "match_pattern"


def _is_by_value(condition: Node) -> bool:
    text = read_text(condition)
    return _GUARDS.search(text) is None or "err" in text


def _only_raises(branch: Node) -> bool:
    """True where the branch does nothing but raise: the other way, everything fails with that."""
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
    """True where the way out of a loop may depend on a branch: the other way, it might not end."""
    return branch is not None and any(
        each.type.startswith(("break", "return", "continue")) for each in walk(branch)
    )


# --- Results ------------------------------------------------------------------------------------


def _list_results(place: Place, rules: dict[str, Any]) -> Iterator[Change]:
    node = place.node
    if "zero" in rules and node.type in _RETURNS:
        yield from _list_zero_results(place, rules)
        return
    value = _find_result(place, rules)
    if value is None or _is_decision(unwrap_parentheses(value), rules):
        return
    inner = unwrap_parentheses(value)
    if inner.type in _NUMBERS | (TEXTS if "text" in rules else frozenset()):
        return
    if found := _find_typed_result(_read_result_type(place.owner), rules):
        yield _change(value, "returned as another value", found, rules)
    elif found := rules.get("kinds", {}).get(inner.type):
        if list_children(inner):
            yield _change(value, "returned as an empty one", found, rules)
    elif (found := rules.get("nothing")) and inner.type not in ("none", "null", "nil", "undefined"):
        if not re.fullmatch(rules.get("primitive", "-"), _read_result_type(place.owner)):
            yield _change(value, "returned as nothing", found, rules, by_value=False)


def _find_result(place: Place, rules: dict[str, Any]) -> Node | None:
    """What a return statement returns, or what the last expression of a body is."""
    node = place.node
    if node.type in _RETURNS:
        given = list_children(node)
        if given and given[0].type == "argument_list":
            given = list_children(given[0])
        return given[0] if len(given) == 1 else None
    body = find_field(place.owner, "body") or next(
        (each for each in place.owner.named_children if each.type.endswith("body")), None
    )
    if body is None or not rules.get("tails"):
        return None
    last = list_children(body)[-1:] if body.type in BLOCKS or body.type == "function_body" else [body]
    inside = node.parent == body or node == body
    return node if inside and last == [node] and _is_expression(node) else None


def _is_expression(node: Node) -> bool:
    return node.type not in BLOCKS and not node.type.endswith(
        ("statement", "declaration", "definition", "item", "assignment", "clause", "body")
    ) and node.type not in (*_RETURNS, "if", "unless", "case", "while", "begin", "rescue", "ensure")


def _read_result_type(owner: Node) -> str:
    """The declared type of a function's result; "" where there is none."""
    declared = find_field(owner, "return_type", "returns", "type", "result")
    if declared is None and owner.type == "function_declaration":
        declared = next(
            (each for each in list_children(owner) if each.type in ("user_type", "nullable_type")),
            None,
        )
    return read_text(declared).lstrip(":-> ").strip("\"'")


def _find_typed_result(declared: str, rules: dict[str, Any]) -> str:
    for pattern, template in rules["types"]:
        if found := re.fullmatch(pattern, declared, re.DOTALL):
            return str(template).replace("{type}", found.groupdict().get("type") or "")
    return ""


def _list_zero_results(place: Place, rules: dict[str, Any]) -> Iterator[Change]:
    """``return a, b`` as the zero values of the declared types (Go)."""
    types = _list_result_types(place.owner)
    values = [each for group in list_children(place.node) for each in list_children(group)]
    if types == ["bool"] and len(values) == 1 and not _is_decision(values[0], rules):
        yield _change(values[0], "negated", str(rules["condition"]), rules)
    changed = [
        declared
        for declared, value in zip(types, values, strict=False)
        if not re.fullmatch(rules["zeros"], read_text(value))
    ]
    if len(types) != len(values) or not changed or types == ["bool"] or "\n" in "".join(types):
        return
    zeros = ", ".join(str(rules["zero"]).replace("{type}", each) for each in types)
    by_value = all(re.fullmatch(rules["certain"], each) for each in changed)
    template = str(rules["results"]).replace("{zeros}", zeros)
    yield _change(place.node, "returned as zero values", template, rules, by_value=by_value)


def _list_result_types(owner: Node) -> list[str]:
    result = find_field(owner, "result")
    if result is None or result.type != "parameter_list":
        return [read_text(result)] if result else []
    found = []
    for each in list_children(result):
        names = each.children_by_field_name("name")
        found += [read_text(find_field(each, "type"))] * max(len(names), 1)
    return found


# --- Numbers and texts --------------------------------------------------------------------------


def _list_literals(place: Place, rules: dict[str, Any]) -> Iterator[Change]:
    node = place.node
    text = read_text(node)
    parent = node.parent
    by_value = parent is not None and parent.type not in _SUBSCRIPTS
    if node.type in _NUMBERS and "number" in rules and _NUMBER.fullmatch(text):
        if not place.looping and not _is_argument_of(node, _WAITING) and _may_grow(node, rules):
            template = str(rules["number"]).replace("{one}", "1.0" if "." in text else "1")
            yield _change(node, "off by one", template, rules, by_value=by_value)
    elif node.type in TEXTS and "text" in rules and _computes(node):
        yield _change(node, 'with "~" at its end', str(rules["text"]), rules, by_value=by_value)


def _may_grow(number: Node, rules: dict[str, Any]) -> bool:
    """True where a number is a value, and of a type that the language's table can add to."""
    parent = number.parent
    if parent is None or "pattern" in parent.type or find_field(parent, "length") == number:
        return False
    if find_field(parent, "field", "key", "property") == number:
        return False
    if "number_beside" not in rules or parent.type in rules.get("number_in", "").split():
        return True
    return parent.type in _BINARY and any(
        re.match(rules["number_beside"], read_text(each)) for each in list_children(parent)
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


# --- Statements left out ------------------------------------------------------------------------


def _list_omissions(place: Place, rules: dict[str, Any], function: Function) -> Iterator[Change]:
    node = place.node
    if place.looping or not _is_statement(node, rules):
        return
    inner = node
    while inner.type in _WRAPPERS and len(children := list_children(inner)) == 1:
        inner = children[0]
    if "call" in rules and _read_operator(inner) == "<<":
        yield _change(inner, "left out", str(rules["call"]), rules)
    elif inner.type in CALLS and _read_operator(inner) == "":
        names = [link.name for link in read_chain(inner)]
        if "call" not in rules or is_told(inner) or not names or _WAITING.search(names[-1]):
            return
        if "super" in names or names == ["this"]:
            return
        changing = _CHANGING.search(names[-1]) is not None
        template = str(rules["call"])
        yield _change(_find_span(node, inner, template), "left out", template, rules, by_value=changing)
    elif inner.type in _ASSIGNMENTS and "assignment" in rules and _is_augmented(inner):
        template = str(rules["assignment"])
        yield _change(_find_span(node, inner, template), "left out", template, rules)


def _find_span(statement: Node, inner: Node, template: str) -> Node:
    """The expression alone where it stays one, otherwise the statement with its semicolon."""
    return statement if "if" in template.split("{kept}")[0].split() or "{ if" in template else inner


def _is_statement(node: Node, rules: dict[str, Any]) -> bool:
    parent = node.parent
    if parent is None:
        return False
    if node.type in ("inc_statement", "dec_statement", "assignment_statement", "expression_statement"):
        alone = "if not" not in str(rules.get("assignment")) or _is_alone(node)
        return parent.type in BLOCKS and alone
    if parent.type not in BLOCKS or "expression_statement" in rules:
        return False
    return list_children(parent)[-1:] != [node]


def _is_alone(node: Node) -> bool:
    """True where nothing else stands on the lines of a statement, for languages with indentation."""
    before, after = node.prev_sibling, node.next_sibling
    above = node.parent
    return (
        (before is None or before.end_point[0] < node.start_point[0])
        and (after is None or after.start_point[0] > node.end_point[0])
        and (above is None or above.parent is None or above.start_point[0] > above.parent.start_point[0])
    )


def _is_augmented(node: Node) -> bool:
    named = find_field(node, "operator")
    words = [read_text(each) for each in node.children if not each.is_named]
    return any(_ASSIGNING.search(word) for word in [*words, read_text(named)])
