"""Whether the rest of a person's change may explain weaker tests: then they are only a warning.

Added lines count unless they are empty, comments and the like. Moved ones count, too: they show
that the change does more than delete.
"""

from collections.abc import Iterator, Sequence

from gitlab_nightshift.proof.reading.dependency_files import describe_dependencies
from gitlab_nightshift.proof.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.proof.syntax.languages import is_code, is_named_test, is_product
from gitlab_nightshift.repository.difference import ChangedFile, Line

_TABLE = RuleTable(__file__)
_NO_STATEMENT = _TABLE.get_pattern("no_statement")


def may_rewrite_tests(change: Changeset, found: Sequence[RuleViolation]) -> bool:
    """True if the tested code or its dependencies change, or if more lines of code are added than
    violations were found."""
    if any(any(_list_product_lines(file)) or describe_dependencies(file) for file in change.files):
        return True
    added = (line for file in change.files if is_code(file.path) for line in file.added)
    return sum(map(_has_statement, added)) > len(found)


def _list_product_lines(file: ChangedFile) -> Iterator[Line]:
    """The deleted and added lines of product code, without comments and tests."""
    for lines, side in zip((file.deleted, file.added), read_sides(file), strict=True):
        if is_code(side.path) and is_product(side.path) and not is_named_test(side.path):
            hidden = {n for test in side.tests for n in range(test.line, test.end + 1)}
            hidden |= side.lines_without_code
            shown = (line for line in lines if line.number not in hidden)
            yield from filter(_has_statement, shown)


def _has_statement(line: Line) -> bool:
    return not _NO_STATEMENT.match(line.text.strip())
