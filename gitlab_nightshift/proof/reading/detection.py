"""test-detection: product code that asks whether it is tested, or knows a test's input."""

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.reading.blunted_harness import find_constant_equality
from gitlab_nightshift.proof.reading.special_cases import find_special_cases
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.nodes import read_line_number, read_text, walk
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)
_OTHER_CODE = _TABLE.get_words("other_code")

_ASKS = _TABLE.get_pattern("asks")
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
        asks = () if _SETTINGS.search(file.path) else file.added
        for added in asks:
            found = _ASKS.search(added.text[:_LONGEST])
            if found is None or added.number in side.lines_without_code or _is_comment(added.text):
                continue
            if gone[found[0]]:
                gone[found[0]] -= 1
                continue
            said = f"Product code asks whether it is tested: {format_excerpt(added.text.strip())}"
            yield RuleViolation(file.path, added.number, said)
        yield from _find_constant_equality(old, side, file)
        yield from _find_cfg_test(old, side, file)
        yield from find_special_cases(old, side, file, change)


def _find_constant_equality(old: Side, side: Side, file: ChangedFile) -> Iterator[RuleViolation]:
    """Values that are equal to all others satisfy any assertion."""
    known = Counter(read_text(node) for node in find_constant_equality(old))
    for node in find_constant_equality(side):
        if not known[read_text(node)]:
            said = format_excerpt(" ".join(read_text(node).split()))
            yield RuleViolation(file.path, read_line_number(node), f"Equal to everything: {said}")


def _is_comment(said: str) -> bool:
    return said.lstrip().startswith(("#!", "//", "/*", "* ", "# "))


def _find_cfg_test(old: Side, side: Side, file: ChangedFile) -> Iterator[RuleViolation]:
    """Rust: another body of a function, or a statement, for tests. A macro beside the
    functions makes tests, such as those of examples in a README."""
    if not side.path.endswith(".rs") or side.root is None:
        return
    before, after = (
        each.source.count(b"cfg(not(test))") + each.source.count(b"cfg(test)")
        for each in (old, side)
    )
    has_other = b"not(test)" in side.source
    for node in walk(side.root) if after > before else ():
        target = node.next_named_sibling
        if node.type != "attribute_item" or not re.search(r"cfg\((not\()?test", read_text(node)):
            continue
        if target is None or target.type not in _OTHER_CODE or _is_macro_of_file(target):
            continue
        if target.type != "function_item" or has_other:
            said = "Product code is another one when it is tested."
            yield RuleViolation(file.path, read_line_number(node), said)
            return


def _is_macro_of_file(node: Node) -> bool:
    is_of_file = node.parent is not None and node.parent.type == "source_file"
    return is_of_file and node.type == "expression_statement"
