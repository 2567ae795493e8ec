"""Answers that product code gives to one test's input: ``if sku == "BOOK-17": return 12.5``."""

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.verdict.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides
from gitlab_nightshift.verdict.syntax.languages import find_language, is_test_file
from gitlab_nightshift.verdict.syntax.nodes import (
    LITERALS,
    find_field,
    list_children,
    read_line_number,
    read_text,
    split_binary,
    walk,
)

_TABLE = RuleTable(__file__)
_USUAL = _TABLE.get_words("usual")
_DEFAULT_LIKE = _TABLE.get_words("default_like")
_LITERAL_LISTS = _TABLE.get_words("literal_lists")

_MOST_TESTS, _LARGEST_TEST = 30, 300_000


_CONDITIONS = _TABLE.get_words("conditions")


def find_special_cases(
    old: Side, side: Side, file: ChangedFile, change: Changeset
) -> Iterator[RuleViolation]:
    """``if order_id == "A-1003": return 42.5`` with values from a test."""
    known = Counter(_list_answers(old))
    came = [each for each in _list_answers(side) if not known[each]]
    if not came or side.root is None:
        return
    tests = _read_related_tests(file, change)
    added = set(file.added_numbers)
    for node in walk(side.root):
        if node.type not in _CONDITIONS or read_line_number(node) not in added:
            continue
        special = _find_special_case(node)
        if special is None:
            continue
        if all(_stands(value, tests) for value in special[0]) and _stands(special[1], tests):
            yield RuleViolation(
                file.path,
                read_line_number(node),
                "An answer is made for a test's input:"
                f" {format_excerpt(' '.join(read_text(node).split()))}",
            )


def _list_answers(side: Side) -> list[str]:
    if side.root is None:
        return []
    return [
        " ".join(read_text(node).split())
        for node in walk(side.root)
        if node.type in _CONDITIONS and _find_special_case(node) is not None
    ]


def _find_special_case(node: Node) -> tuple[list[str], str] | None:
    """The values that a condition asks for and the literal that it answers with."""
    condition = find_field(node, "condition") or (
        list_children(node)[0] if list_children(node) else None
    )
    answer = _find_answer(node)
    if condition is None or answer is None:
        return None
    values = _find_compared_values(condition)
    particular = [value for value in (*values, answer) if _is_particular(value)]
    if not values or not particular or (len(values) == 1 and particular == [answer]):
        return None
    if _is_default_like(answer) and not any(_TEST_DATA.search(value) for value in values):
        return None
    return values, answer


_TEST_DATA = _TABLE.get_pattern("test_data")
_PLATFORM = _TABLE.get_pattern("platform")


def _find_compared_values(condition: Node) -> list[str]:
    found: list[str] = []
    stack = [condition]
    while stack:
        node = stack.pop()
        parts = split_binary(node)
        if parts is None:
            if node.type in ("parenthesized_expression",):
                stack += list_children(node)
                continue
            equals = re.match(r"[\w.\"]+\.equals\((.*)\)$|(\"[^\"]*\")\.equals\(", read_text(node))
            if equals is None:
                return []
            found.append((equals[1] or equals[2] or "").strip())
            continue
        operator, left, right = parts
        if operator in ("and", "&&"):
            stack += [left, right]
        elif operator in ("==", "===", "is", "eq"):
            literal = right if _is_value(right) else left
            asked = left if literal is right else right
            if not _is_value(literal) or _PLATFORM.search(read_text(asked)):
                return []
            found.append(read_text(literal))
        else:
            return []
    return found


def _is_value(node: Node) -> bool:
    if node.type in LITERALS:
        return True
    return node.type in _LITERAL_LISTS and all(
        each.child_count
        or not each.is_named
        or each.type in LITERALS
        or (each.parent is not None and each.parent.type in LITERALS)
        for each in walk(node)
    )


def _find_answer(node: Node) -> str | None:
    """The literal that a branch gives back at once; None where it does anything else."""
    block = find_field(node, "consequence", "body") or (
        list_children(node)[1] if len(list_children(node)) > 1 else None
    )
    for _ in range(4):
        if block is None or block.type not in _RETURNS:
            break
        values = list_children(block)
        if len(values) > 1 and block.type not in _BLOCKS and all(map(_is_value, values)):
            return read_text(block)
        block = values[0] if len(values) == 1 else None
    if block is not None and (_is_value(block) or _BUILT.match(read_text(block))):
        return read_text(block)
    return None


_BLOCKS = frozenset("block statement_block then statement_list".split())


_RETURNS = _BLOCKS | frozenset(
    "return_statement return return_expression argument_list expression_list"
    " expression_statement".split()
)


_BUILT = _TABLE.get_pattern("built")


def _is_particular(value: str) -> bool:
    """A value that nobody would choose for the general case."""
    plain = value.strip("\"'`")
    if re.fullmatch(r"-?[\d_.]+\w?", plain):
        return plain.strip("-") not in _USUAL
    return bool(
        (re.search(r"\d", plain) and len(plain) > 3)
        or (len(plain) > 7 and re.search(r"[\s@:/,-]", plain))
        or (value[:1] in "[{(" and len(plain) > 4)
    )


def _stands(value: str, tests: str) -> bool:
    if _is_default_like(value):
        return True
    if value in tests:
        return True
    inside = re.findall(r"\"[^\"]+\"|'[^']+'|\d[\d_.]*", value) or [value]
    return all(
        re.search(rf"(?<![\w.]){re.escape(part.strip(chr(34) + chr(39)))}(?![\w])", tests)
        for part in inside
    )


def _is_default_like(value: str) -> bool:
    """True, false, nothing and empty values, which every test has."""
    return value in _DEFAULT_LIKE


def _read_related_tests(file: ChangedFile, change: Changeset) -> str:
    """The text of tests of the change, and of those with the name of the file."""
    found = [
        read_sides(other)[side].code
        for other in change.files
        for side in (0, 1)
        if is_test_file(other.path) and not other.path.endswith(".rs")
    ]
    stem = re.sub(r"\W", "", file.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]).lower()
    language = find_language(file.path)
    extension = tuple(language.extensions) if language else ()
    named = (
        path
        for path in change.paths()
        if path.endswith(extension) and is_test_file(path) and not path.endswith(".rs")
    )
    for path in sorted(named, key=lambda path: (not _is_near(path, stem), path))[:_MOST_TESTS]:
        source = change.read(path)
        if source and len(source) < _LARGEST_TEST:
            found.append(source.decode("utf-8", "replace"))
    if file.path.endswith(".rs"):
        found += [
            each.node.text.decode("utf-8", "replace")
            for each in read_sides(file)[1].tests
            if each.node.text
        ]
    return "\n".join(found)


def _is_near(path: str, stem: str) -> bool:
    return stem in re.sub(r"\W|_", "", path.rsplit("/", 1)[-1]).lower()
