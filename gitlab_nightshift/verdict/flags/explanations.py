"""What else a change does: where that may explain a finding, reading cannot be certain of it.

A reviewer of a person's change asks then, and does not block. Counted are added lines that say
something; one that only moved counts, too, as then more happens than that something goes.
"""

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

from gitlab_nightshift.repository.difference import ChangedFile, Line
from gitlab_nightshift.verdict.flags.dependency_files import describe_dependencies
from gitlab_nightshift.verdict.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides
from gitlab_nightshift.verdict.syntax.languages import is_code, is_named_test, is_product

_TABLE = RuleTable(__file__)
_SILENT = _TABLE.get_pattern("silent")

Violations = Sequence[RuleViolation]
_Lines = Sequence[Line]
_PRODUCT: WeakKeyDictionary[ChangedFile, tuple[_Lines, _Lines]] = WeakKeyDictionary()


def may_rewrite_tests(change: Changeset, found: Violations) -> bool:
    """What is tested changes, or more test code comes than weaker assertions are."""
    return _count_test_lines(change) > len(found) or _changes_behaviour(change.files)


def _changes_behaviour(files: Iterable[ChangedFile]) -> bool:
    return any(any(_list_product_lines(file)) or describe_dependencies(file) for file in files)


def _count_test_lines(change: Changeset) -> int:
    added = (line for file in change.files for line in _list_test_lines(file))
    return sum(not _SILENT.match(line.text.strip()) for line in added)


def _list_test_lines(file: ChangedFile) -> _Lines:
    """The lines of code that came and are none of the product."""
    own = {each.number for each in _list_product_lines(file)[1]}
    coded = is_code(file.path)
    return [each for each in file.added if each.number not in own] if coded else ()


def _list_product_lines(file: ChangedFile) -> tuple[_Lines, _Lines]:
    """The lines of product code that went and that came, outside of comments and tests."""
    if file not in _PRODUCT:
        sides = zip((file.deleted, file.added), read_sides(file), strict=True)
        gone, came = ([*_pick_product_lines(lines, side)] for lines, side in sides)
        _PRODUCT[file] = gone, came
    return _PRODUCT[file]


def _pick_product_lines(lines: _Lines, side: Side) -> _Lines:
    path = side.path
    if not is_code(path) or not is_product(path) or is_named_test(path):
        return ()
    hidden = side.lines_without_code | {n for t in side.tests for n in range(t.line, t.end + 1)}
    return [
        each for each in lines if each.number not in hidden and not _SILENT.match(each.text.strip())
    ]
