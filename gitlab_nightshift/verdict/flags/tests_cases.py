"""Fewer cases of a table: parametrizations, tables of structs, lists that a test goes through."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.change import Change, Found
from gitlab_nightshift.verdict.flags.tests_seen import Seen, shown, tests_seen
from gitlab_nightshift.verdict.syntax.called_tests import lists_around
from gitlab_nightshift.verdict.syntax.nodes import LISTS, field, kids, line, text, tokens, walk
from gitlab_nightshift.verdict.syntax.side import Side, sides

if TYPE_CHECKING:
    from tree_sitter import Node

_TABLE_NAME = re.compile(
    r"(?i)(cases|tests|tt|tcs|table|examples|scenarios|params|samples|fixtures"
    r"|inputs|matrix|vectors)$"
)
_MOST_LISTS = 500
_MARKED_CASE = re.compile(
    r"^(#\[|@|\[)\s*(\w+(::|\.))*(case|test_case|TestCase|InlineData|DataRow|CsvSource|ValueSource"
    r"|EnumSource|NullSource|EmptySource|NullAndEmptySource|MethodSource|example|Case)\b"
)
Cases = dict[str, list[tuple[str, ...]]]


def fewer(change: Change) -> Iterator[Found]:
    """Tables that lost cases which no new test took over."""
    tests = tests_seen(change)
    taken = _taken_over(change)
    for old, new in tests.changed:
        was, now = _of_test(old), _of_test(new)
        if len(was) > len(now) and (lost := _lost(was, now, taken)):
            yield _found(new.file.path, new.test.line, new.name, (len(was), len(now)), lost)
    for file in change.files:
        before, after = sides(file)
        if after.language is None or before.is_product:
            continue
        tables = dict(_tables(after))
        for name, (_, cases) in _tables(before):
            at, left = tables.get(name, (0, None))
            if left is not None and len(left) < len(cases) and (lost := _lost(cases, left, taken)):
                yield _found(file.path, at, shown(name), (len(cases), len(left)), lost)


_Rows = list[tuple[str, ...]]


def _found(path: str, at: int, name: str, count: tuple[int, int], lost: _Rows) -> Found:
    gone = shown(" ".join(lost[0]))
    return Found(path, at, f"{name} has {count[1]} cases now, {count[0]} before; gone: {gone}")


def _lost(was: _Rows, now: _Rows, taken: frozenset[str]) -> _Rows:
    there = set(now)
    return [
        row
        for row in dict.fromkeys(was)
        if row not in there and not (_values(row) and _values(row) <= taken)
    ]


def _values(row: tuple[str, ...]) -> set[str]:
    return {word for word in row if word[:1] in "\"'`" or re.match(r"[\d-]", word)}


def _taken_over(change: Change) -> frozenset[str]:
    """The values of tests that are new."""
    return frozenset(word for seen in tests_seen(change).came for word in _values(seen.words))


def _of_test(seen: Seen) -> _Rows:
    """Every case that is written in a test or on it."""
    found: _Rows = [
        (mark,) for mark in seen.test.marks if _MARKED_CASE.match(mark) and not _is_list_mark(mark)
    ]
    found += [tokens(row) for node in lists_around(seen.test) for row in _rows(node)]
    looked_at = 0
    for node in walk(_with_marks(seen.test.node)):
        looked_at += node.type in LISTS
        if looked_at > _MOST_LISTS:
            break
        if node.type in LISTS and _is_table(node, seen):
            found += [tokens(row) for row in _rows(node)]
        elif node.type == "annotation" and _is_list_mark(text(node)):
            found += [(said,) for said in _VALUE.findall(text(node))]
    return found


_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|-?\d[\w.]*")


def _is_list_mark(mark: str) -> bool:
    return re.match(r"@(\w+\.)*(CsvSource|ValueSource|EnumSource)\b", mark) is not None


def _with_marks(node: "Node") -> "Node":
    outside = node.parent
    return outside if outside is not None and outside.type == "decorated_definition" else node


def _rows(node: "Node") -> "list[Node]":
    body = field(node, "body")
    return kids(body) if body is not None else kids(node)


def _is_table(node: "Node", seen: Seen) -> bool:
    """A list that the test goes through: of its parametrization, a loop, ``each``."""
    parent = node.parent
    for _ in range(4):
        if parent is not None and parent.type in _WRAPPERS:
            parent = parent.parent
    if parent is None:
        return False
    if parent.type in _LOOPS:
        return True
    if parent.type in _CALLED_ON:
        word = text(parent)[node.end_byte - parent.start_byte :][:14]
        return bool(re.match(r"\s*\.(forEach|each|iter|map|foreach|into_iter)\b", word))
    if parent.type in ("arguments", "argument_list") and parent.parent is not None:
        head = text(parent.parent)[: parent.start_byte - parent.parent.start_byte]
        names_only = "parametrize" in head and kids(parent)[:1] == [node]
        return not names_only and bool(_TAKES_CASES.search(head))
    name = _variable(parent)
    return bool(name) and (
        bool(_TABLE_NAME.search(name)) or _is_gone_through(name, text(seen.test.node))
    )


_WRAPPERS = frozenset(
    "reference_expression unary_expression as_expression satisfies_expression"
    " parenthesized_expression expression_list".split()
)
_LOOPS = frozenset(
    "for_statement for_in_statement for for_expression foreach_statement range_clause"
    " enhanced_for_statement in".split()
)
_CALLED_ON = frozenset(
    "member_expression call field_expression method_invocation attribute".split()
)
_TAKES_CASES = re.compile(
    r"(\beach|parametrize|parameterized\.expand|for_each|Table|sub_?test\w*)\s*$"
)


def _is_used(name: str, side: Side) -> bool:
    """A constant that a parametrization or a loop of the file goes through."""
    code = side.code
    return _is_gone_through(name, code) or bool(
        re.search(rf"(parametrize|\beach|expand|forAll|Table)\([^)]*\b{re.escape(name)}\b", code)
    )


def _is_gone_through(name: str, code: str) -> bool:
    word = re.escape(name)
    loops = (
        rf"(\bfor\b[^\n]{{0,200}}?\bin|:=\s*range|:|of|<-)\s+&?(enumerate\()?{word}\b"
        rf"|\b{word}\.(forEach|each|iter|map|foreach)\b|each\({word}\)"
    )
    return re.search(loops, code) is not None


_ASSIGNMENTS = frozenset(
    "assignment variable_declarator short_var_declaration var_spec let_declaration const_spec"
    " assignment_expression val_definition const_item static_item property_declaration"
    " assignment_statement".split()
)


def _variable(parent: "Node") -> str:
    named = field(parent, "name", "left", "pattern")
    if named is None and parent.type == "short_var_declaration":
        named = field(parent, "left")
    return text(named) if parent.type in _ASSIGNMENTS else ""


def _tables(side: Side) -> Iterator[tuple[str, tuple[int, _Rows]]]:
    """Tables of a test file that stand outside its tests, by name."""
    if side.root is None:
        return
    tests = {test.node.id for test in side.tests}
    for node in walk(side.root, lambda each: each.id not in tests):
        if node.type in LISTS and node.parent is not None:
            parent = node.parent
            name = _variable(parent)
            if (
                not name
                and parent.parent is not None
                and parent.type in ("expression_list", "reference_expression")
            ):
                name = _variable(parent.parent)
            if name and (_TABLE_NAME.search(name) or (name.isupper() and _is_used(name, side))):
                yield name, (line(node), [tokens(row) for row in _rows(node)])
