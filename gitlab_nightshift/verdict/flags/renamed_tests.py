"""test-renamed-away: tests whose body lives on where no runner collects it."""

from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.verdict.flags.matched_tests import (
    MOST_PAIRS,
    TestVersion,
    compute_similarity,
    count_words,
    list_functions_after,
    match_tests,
)
from gitlab_nightshift.verdict.flags.unparsed_tests import find_line_tests_renamed_away
from gitlab_nightshift.verdict.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.called_tests import list_called_tests
from gitlab_nightshift.verdict.syntax.file_side import read_sides
from gitlab_nightshift.verdict.syntax.languages import beside_tests, is_test_file
from gitlab_nightshift.verdict.syntax.nodes import (
    LAMBDAS,
    find_field,
    read_line_number,
    read_text,
    walk,
)

_TABLE = RuleTable(__file__)
_STILL_THERE = 0.7


def find_tests_renamed_away(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Tests whose body lives on where no runner collects it."""
    for file in change.files:
        if is_moved_out(file.old_path, file.path):
            yield RuleViolation(
                file.old_path, 0, f"{file.old_path} is {file.path} now: no runner collects it."
            )
    for version, where, line, name in find_renamed_tests(change):
        if not is_moved_out(version.file.old_path, version.file.path):
            yield RuleViolation(
                where,
                line,
                f"{version.name} is {name} now, which no runner collects: keep its old name.",
            )
    yield from find_line_tests_renamed_away(change)


def is_moved_out(old: str, new: str) -> bool:
    """A file of tests got a name or a place where no runner looks."""
    if old == new or not is_test_file(old) or old.endswith(".rs"):
        return False
    if not is_test_file(new) or (_BY_NAME.search(old) and not _BY_NAME.search(new)):
        return True
    if old.endswith(_BY_PLACE) and beside_tests(old) and not beside_tests(new):
        return True
    return bool(_AWAY.search(new)) and not _AWAY.search(old)


_BY_PLACE = (".java", ".scala", ".kt", ".rb", ".php", ".cs")
_AWAY = _TABLE.get_pattern("away")
_BY_NAME = _TABLE.get_pattern("by_name")


def find_renamed_tests(change: Changeset) -> list[tuple[TestVersion, str, int, str]]:
    """Tests with the place and the name of what is no test and has their body."""
    gone = match_tests(change).gone
    if not gone:
        return []
    others = [
        (file.path, function.line, function.qualified, count_words(function.body), function.name)
        for file, side, function in list_functions_after(change)
        if not function.is_class and function.node not in [test.node for test in side.tests]
    ]
    for file in change.files:
        side = read_sides(file)[1]
        if side.root is not None and side.language is not None and not side.is_test_file:
            others += [
                (file.path, test.line, test.qualified, count_words(test.body), test.name)
                for test in list_called_tests(side.root, side.language, side.path)
            ]
        if side.root is not None and side.is_test_file:
            others += [
                (file.path, read_line_number(node), _find_lambda_name(node), count_words(node), "")
                for node in walk(side.root)
                if node.type in LAMBDAS and node.parent is not None and _find_lambda_name(node)
            ]
    if len(gone) * len(others) > MOST_PAIRS:
        return []
    found = []
    for version in gone:
        scored = [
            (compute_similarity(version.bag, bag), path, line, name)
            for path, line, name, bag, last in others
            if len(bag) > 2 or last == version.test.name
        ]
        best = max(scored, default=None)
        if best and best[0] >= _STILL_THERE:
            found.append((version, best[1], best[2], format_excerpt(best[3])))
    return found


def _find_lambda_name(node: Node) -> str:
    """The variable that a function is put into."""
    parent = node.parent
    if parent is None or parent.type not in ("variable_declarator", "short_var_declaration"):
        return ""
    return read_text(find_field(parent, "name", "left"))
