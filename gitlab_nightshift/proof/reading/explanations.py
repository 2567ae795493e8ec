"""What else a change does: where that may explain a finding, reading cannot be certain of it.

A reviewer of a person's change asks then, and does not block. Counted are added lines that say
something; one that only moved counts, too, as then more happens than that something goes.
"""

from collections.abc import Iterator, Sequence

from gitlab_nightshift.proof.reading.dependency_files import describe_dependencies
from gitlab_nightshift.proof.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.proof.syntax.languages import is_code, is_named_test, is_product
from gitlab_nightshift.repository.difference import ChangedFile, Line

_TABLE = RuleTable(__file__)
_SILENT = _TABLE.get_pattern("silent")


def may_rewrite_tests(change: Changeset, found: Sequence[RuleViolation]) -> bool:
    """What is tested changes, or more test code comes than weaker assertions are."""
    if any(any(_list_product_lines(file)) or describe_dependencies(file) for file in change.files):
        return True
    added = (line for file in change.files if is_code(file.path) for line in file.added)
    return sum(map(_says_something, added)) > len(found)


def _list_product_lines(file: ChangedFile) -> Iterator[Line]:
    """The lines of product code that went or came, outside of comments and tests."""
    for lines, side in zip((file.deleted, file.added), read_sides(file), strict=True):
        if is_code(side.path) and is_product(side.path) and not is_named_test(side.path):
            hidden = {n for test in side.tests for n in range(test.line, test.end + 1)}
            hidden |= side.lines_without_code
            shown = (line for line in lines if line.number not in hidden)
            yield from filter(_says_something, shown)


def _says_something(line: Line) -> bool:
    return not _SILENT.match(line.text.strip())
