"""test-detection: product code that asks whether it is tested, or knows a test's input."""

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.verdict.flags.special_cases import find_special_cases
from gitlab_nightshift.verdict.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides
from gitlab_nightshift.verdict.syntax.nodes import (
    read_line_number,
    read_text,
    walk,
)

_TABLE = RuleTable(__file__)
_OTHER_CODE = _TABLE.get_words("other_code")

_ASKS = _TABLE.get_pattern("asks")
_EQUALITY = _TABLE.get_words("equality")
_CONSTANT = _TABLE.get_pattern("constant")
_SETTINGS = _TABLE.get_pattern("settings")
_LONGEST = 2000


def find_test_detection(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Questions whether a test runs, and answers made for one test's input, that came."""
    gone = Counter(
        found[0]
        for file in change.files
        for each in file.deleted
        for found in _ASKS.finditer(each.text[:_LONGEST])
    )
    for file in change.files:
        old, side = read_sides(file)
        if not side.is_product:
            continue
        for added in file.added:
            found = _ASKS.search(added.text[:_LONGEST]) if not _SETTINGS.search(file.path) else None
            if found is None or added.number in side.lines_without_code or _is_comment(added.text):
                continue
            if gone[found[0]]:
                gone[found[0]] -= 1
                continue
            yield RuleViolation(
                file.path,
                added.number,
                f"Product code asks whether it is tested: {format_excerpt(added.text.strip())}",
            )
        yield from _find_constant_equality(old, side)
        yield from _find_cfg_test(old, side, file)
        yield from find_special_cases(old, side, file, change)


def _find_constant_equality(old: Side, side: Side) -> Iterator[RuleViolation]:
    """What is equal to everything passes each assertion about it."""
    before = {read_text(function.node) for function in old.functions}
    for function in side.functions:
        constant = function.body is not None and _CONSTANT.match(read_text(function.body))
        if function.name in _EQUALITY and constant and read_text(function.node) not in before:
            detail = f"{function.qualified} says that everything is equal."
            yield RuleViolation(side.path, function.line, detail)


def _is_comment(said: str) -> bool:
    return said.lstrip().startswith(("#!", "//", "/*", "* ", "# "))


def _find_cfg_test(old: Side, side: Side, file: ChangedFile) -> Iterator[RuleViolation]:
    """Rust: another body of a function, or a statement, for tests. A macro beside the
    functions makes tests, such as those of examples in a README."""
    if not side.path.endswith(".rs") or side.root is None:
        return
    before = old.source.count(b"cfg(not(test))") + old.source.count(b"cfg(test)")
    for node in walk(side.root):
        if node.type != "attribute_item" or not re.search(r"cfg\((not\()?test", read_text(node)):
            continue
        target = node.next_named_sibling
        if target is not None and target.type in _OTHER_CODE and not _is_macro_of_file(target):
            if target.type == "function_item" and "not(test)" not in read_text(side.root):
                continue
            if side.source.count(b"cfg(not(test))") + side.source.count(b"cfg(test)") > before:
                yield RuleViolation(
                    file.path,
                    read_line_number(node),
                    "Product code is another one when it is tested.",
                )
                return


def _is_macro_of_file(node: Node) -> bool:
    is_of_file = node.parent is not None and node.parent.type == "source_file"
    return is_of_file and node.type == "expression_statement"
