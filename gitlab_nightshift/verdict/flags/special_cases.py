"""Answers that product code gives to one test's input: ``if sku == "BOOK-17": return 12.5``."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.change import Change, ChangedFile, Found
from gitlab_nightshift.verdict.flags.tests_seen import shown
from gitlab_nightshift.verdict.syntax.languages import is_test_file, language_of
from gitlab_nightshift.verdict.syntax.nodes import LITERALS, binary, field, kids, line, text, walk
from gitlab_nightshift.verdict.syntax.side import Side, sides

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_TESTS, _LARGEST_TEST = 30, 300_000


_CONDITIONS = frozenset(
    "if_statement if if_expression elif_clause elsif if_modifier conditional_expression"
    " ternary_expression conditional".split()
)


def special_cases(old: Side, side: Side, file: ChangedFile, change: Change) -> Iterator[Found]:
    """``if order_id == "A-1003": return 42.5`` with values that stand in a test."""
    known = Counter(_answers(old))
    came = [each for each in _answers(side) if not known[each]]
    if not came or side.root is None:
        return
    tests = _tests_around(file, change)
    added = set(file.difference.added)
    for node in walk(side.root):
        if node.type not in _CONDITIONS or line(node) not in added:
            continue
        special = _special(node)
        if special is None:
            continue
        if all(_stands(value, tests) for value in special[0]) and _stands(special[1], tests):
            yield Found(
                file.path,
                line(node),
                f"An answer is made for a test's input: {shown(' '.join(text(node).split()))}",
            )


def _answers(side: Side) -> list[str]:
    if side.root is None:
        return []
    return [
        " ".join(text(node).split())
        for node in walk(side.root)
        if node.type in _CONDITIONS and _special(node) is not None
    ]


def _special(node: "Node") -> tuple[list[str], str] | None:
    """The values that a condition asks for and the literal that it answers with."""
    condition = field(node, "condition") or (kids(node)[0] if kids(node) else None)
    answer = _answer(node)
    if condition is None or answer is None:
        return None
    values = _asked(condition)
    if not values or (
        not any(_is_particular(value) for value in (*values, answer)) and len(values) < 2
    ):
        return None
    if not any(_is_particular(value) for value in values) and len(values) < 2:
        return None
    if _is_default_like(answer) and not any(_TEST_DATA.search(value) for value in values):
        return None
    return values, answer


_TEST_DATA = re.compile(r"(?i)test|foo|example|dummy|\d{3}|@|\bx{3}")


def _asked(condition: "Node") -> list[str]:
    found: list[str] = []
    stack = [condition]
    while stack:
        node = stack.pop()
        parts = binary(node)
        if parts is None:
            if node.type in ("parenthesized_expression",):
                stack += kids(node)
                continue
            equals = re.match(r"[\w.\"]+\.equals\((.*)\)$|(\"[^\"]*\")\.equals\(", text(node))
            if equals is None:
                return []
            found.append((equals[1] or equals[2] or "").strip())
            continue
        operator, left, right = parts
        if operator in ("and", "&&"):
            stack += [left, right]
        elif operator in ("==", "===", "is", "eq"):
            literal = right if _is_value(right) else left
            if not _is_value(literal):
                return []
            found.append(text(literal))
        else:
            return []
    return found


def _is_value(node: "Node") -> bool:
    if node.type in LITERALS:
        return True
    return node.type in (
        "list",
        "tuple",
        "array",
        "dictionary",
        "object",
        "unary_operator",
        "unary_expression",
    ) and all(
        each.child_count
        or not each.is_named
        or each.type in LITERALS
        or (each.parent is not None and each.parent.type in LITERALS)
        for each in walk(node)
    )


def _answer(node: "Node") -> str | None:
    """The literal that a branch gives back at once; None where it does anything else."""
    block = field(node, "consequence", "body") or (kids(node)[1] if len(kids(node)) > 1 else None)
    for _ in range(4):
        if block is None or block.type not in _RETURNS:
            break
        values = kids(block)
        if len(values) > 1 and block.type not in _BLOCKS and all(map(_is_value, values)):
            return text(block)
        block = values[0] if len(values) == 1 else None
    if block is not None and (_is_value(block) or _BUILT.match(text(block))):
        return text(block)
    return None


_BLOCKS = frozenset("block statement_block then statement_list".split())


_RETURNS = _BLOCKS | frozenset(
    "return_statement return return_expression argument_list expression_list"
    " expression_statement".split()
)


_BUILT = re.compile(
    r"(new )?[A-Z]\w*(\.valueOf|::from)?\([\"'\d.]+\)$|Ok\(.{1,40}\)$|Some\(.{1,40}\)$"
)


def _is_particular(value: str) -> bool:
    """A value that nobody would choose for the general case."""
    plain = value.strip("\"'`")
    if re.fullmatch(r"-?[\d_.]+\w?", plain):
        return plain.strip("-") not in (
            "0",
            "1",
            "2",
            "10",
            "100",
            "1000",
            "0.0",
            "1.0",
            "60",
            "24",
            "12",
            "7",
            "404",
            "200",
            "500",
            "255",
            "256",
            "1024",
        )
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
    """True, false, nothing and empty values stand in every test."""
    return value in (
        "True",
        "False",
        "true",
        "false",
        "None",
        "null",
        "nil",
        '""',
        "''",
        "[]",
        "{}",
        "0",
        "1",
    )


def _tests_around(file: ChangedFile, change: Change) -> str:
    """The text of tests of the change, and of those with the name of the file."""
    found = [
        sides(other)[side].source.decode("utf-8", "replace")
        for other in change.files
        for side in (0, 1)
        if is_test_file(other.path) and not other.path.endswith(".rs")
    ]
    stem = re.sub(r"\W", "", file.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]).lower()
    language = language_of(file.path)
    extension = tuple(language.extensions) if language else ()
    near = [
        path
        for path in change.paths()
        if path.endswith(extension) and is_test_file(path) and not path.endswith(".rs")
        and stem in re.sub(r"\W|_", "", path.rsplit("/", 1)[-1]).lower()
    ]  # fmt: skip
    rest = [
        path
        for path in change.paths()
        if path.endswith(extension)
        and is_test_file(path)
        and path not in near
        and not path.endswith(".rs")
    ]
    for path in [*sorted(near), *sorted(rest)][:_MOST_TESTS]:
        source = change.read(path)
        if source and len(source) < _LARGEST_TEST:
            found.append(source.decode("utf-8", "replace"))
    if file.path.endswith(".rs"):
        found += [
            each.node.text.decode("utf-8", "replace")
            for each in sides(file)[1].tests
            if each.node.text
        ]
    return "\n".join(found)
