"""Fewer cases of a table: parametrizations, tables of structs, lists that a test goes through."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.verdict.flags.matched_tests import TestVersion, match_tests
from gitlab_nightshift.verdict.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.called_tests import find_iterated_lists
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides
from gitlab_nightshift.verdict.syntax.nodes import (
    LISTS,
    find_field,
    list_children,
    list_tokens,
    read_line_number,
    read_text,
    walk,
)

_TABLE = RuleTable(__file__)

_TABLE_NAME = _TABLE.get_pattern("table_name")
_MOST_LISTS = 500
_MARKED_CASE = _TABLE.get_pattern("marked_case")
Cases = dict[str, list[tuple[str, ...]]]


def find_fewer_cases(change: Changeset) -> Iterator[RuleViolation]:
    """Tables that lost cases which no new test took over."""
    tests = match_tests(change)
    taken = _collect_new_values(change)
    for old, new in tests.changed:
        was, now = _list_cases(old), _list_cases(new)
        if len(was) > len(now) and (lost := _find_lost_cases(was, now, taken)):
            yield _build_violation(
                new.file.path, new.test.line, new.name, (len(was), len(now)), lost
            )
    for file in change.files:
        before, after = read_sides(file)
        if after.language is None or before.is_product:
            continue
        tables = _collect_tables(after)
        for name, (_, cases) in _collect_tables(before).items():
            at, left = tables.get(name, (0, None))
            if (
                left is not None
                and len(left) < len(cases)
                and (lost := _find_lost_cases(cases, left, taken))
            ):
                yield _build_violation(
                    file.path, at, format_excerpt(name), (len(cases), len(left)), lost
                )


_Rows = list[tuple[str, ...]]


def _build_violation(
    path: str, at: int, name: str, count: tuple[int, int], lost: _Rows
) -> RuleViolation:
    gone = format_excerpt(" ".join(lost[0]))
    return RuleViolation(
        path, at, f"{name} has {count[1]} cases now, {count[0]} before; gone: {gone}"
    )


def _find_lost_cases(was: _Rows, now: _Rows, taken: frozenset[str]) -> _Rows:
    there = set(now)
    return [
        row
        for row in dict.fromkeys(was)
        if row not in there and not (_extract_values(row) and _extract_values(row) <= taken)
    ]


def _extract_values(row: tuple[str, ...]) -> set[str]:
    return {word for word in row if word[:1] in "\"'`" or re.match(r"[\d-]", word)}


def _collect_new_values(change: Changeset) -> frozenset[str]:
    """The values of tests that are new."""
    return frozenset(
        word for version in match_tests(change).came for word in _extract_values(version.words)
    )


def _list_cases(version: TestVersion) -> _Rows:
    """Every case that is written in a test or on it."""
    found: _Rows = [
        (mark,)
        for mark in version.test.marks
        if _MARKED_CASE.match(mark) and not _is_list_mark(mark)
    ]
    found += [
        list_tokens(row) for node in find_iterated_lists(version.test) for row in _list_rows(node)
    ]
    looked_at = 0
    for node in walk(_with_marks(version.test.node)):
        looked_at += node.type in LISTS
        if looked_at > _MOST_LISTS:
            break
        if node.type in LISTS and _is_table(node, version):
            found += [list_tokens(row) for row in _list_rows(node)]
        elif node.type == "annotation" and _is_list_mark(read_text(node)):
            found += [(said,) for said in _VALUE.findall(read_text(node))]
    return found


_VALUE = _TABLE.get_pattern("value")


def _is_list_mark(mark: str) -> bool:
    return re.match(r"@(\w+\.)*(CsvSource|ValueSource|EnumSource)\b", mark) is not None


def _with_marks(node: Node) -> Node:
    outside = node.parent
    return outside if outside is not None and outside.type == "decorated_definition" else node


def _list_rows(node: Node) -> list[Node]:
    body = find_field(node, "body")
    return list_children(body) if body is not None else list_children(node)


def _is_table(node: Node, version: TestVersion) -> bool:
    """A list that the test goes through: of its parametrization, a loop, ``each``."""
    parent = _find_around_wrappers(node.parent)
    if parent is None:
        return False
    if parent.type in _LOOPS:
        return True
    if parent.type in _CALLED_ON:
        word = read_text(parent)[node.end_byte - parent.start_byte :][:14]
        return bool(re.match(r"\s*\.(forEach|each|iter|map|foreach|into_iter)\b", word))
    if parent.type in ("arguments", "argument_list") and parent.parent is not None:
        head = read_text(parent.parent)[: parent.start_byte - parent.parent.start_byte]
        first, *others = list_children(parent)
        names_only = version.test.language.name == "python" and first == node and bool(others)
        return not names_only and bool(_TAKES_CASES.search(head))
    name = _find_variable_name(parent)
    return bool(name) and (
        bool(_TABLE_NAME.search(name)) or _is_gone_through(name, read_text(version.test.node))
    )


def _find_around_wrappers(node: Node | None) -> Node | None:
    """What is around ``[…] as const`` and the like."""
    for _ in range(4):
        if node is not None and node.type in _WRAPPERS:
            node = node.parent
    return node


_WRAPPERS = _TABLE.get_words("wrappers")
_LOOPS = _TABLE.get_words("loops")
_CALLED_ON = _TABLE.get_words("called_on")
_TAKES_CASES = _TABLE.get_pattern("takes_cases")


def _is_used(name: str, side: Side) -> bool:
    """A constant that a parametrization or a loop of the file goes through."""
    code = side.code
    return _is_gone_through(name, code) or bool(
        re.search(rf"(parametrize|\beach|expand|forAll|Table)\([^)]*\b{re.escape(name)}\b", code)
    )


def _is_gone_through(name: str, code: str) -> bool:
    word = re.escape(name)
    loops = (
        rf"(\bfor(each)?\b[^\n]{{0,200}}?(\bin|:|\bof)|:=\s*range|<-)\s+&?(enumerate\()?{word}\b"
        rf"|\b{word}\.(forEach|each|iter|map|foreach)\b|each\({word}\)"
    )
    return re.search(loops, code) is not None


_ASSIGNMENTS = _TABLE.get_words("assignments")


def _find_variable_name(parent: Node) -> str:
    if parent.type not in _ASSIGNMENTS:
        return ""
    return read_text(find_field(parent, "name", "left", "pattern"))


def _collect_tables(side: Side) -> dict[str, tuple[int, _Rows]]:
    """Tables by name; those of one name, each in a block of its own, count as one."""
    found: dict[str, tuple[int, _Rows]] = {}
    for name, (at, rows) in _list_tables(side):
        first, others = found.get(name, (at, []))
        found[name] = (first, others + rows)
    return found


def _list_tables(side: Side) -> Iterator[tuple[str, tuple[int, _Rows]]]:
    """Tables of a test file that are outside its tests, by name."""
    if side.root is None:
        return
    tests = {test.node.id for test in side.tests}
    for node in walk(side.root, lambda each: each.id not in tests):
        # Downwards from the name: a node's parent is looked for from the file's first node on,
        # which makes 20,000 nodes within one another take minutes.
        name = _find_variable_name(node)
        if name and (_TABLE_NAME.search(name) or (name.isupper() and _is_used(name, side))):
            for table in _list_lists(node):
                rows = [list_tokens(row) for row in _list_rows(table)]
                yield name, (read_line_number(table), rows)


def _list_lists(assignment: Node) -> Iterator[Node]:
    """The lists that are assigned, also ``[…] as const`` and the like."""
    level = assignment.named_children
    for _ in range(5):
        yield from (node for node in level if node.type in LISTS)
        level = [inner for node in level if node.type in _WRAPPERS for inner in node.named_children]
