"""test-deleted: tests that are gone although what they tested is still there."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from gitlab_nightshift.proof.reading.matched_tests import (
    MOST_PAIRS,
    MatchedTests,
    TestVersion,
    list_literals,
    match_tests,
)
from gitlab_nightshift.proof.reading.product_code import find_removed_names
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.languages import beside_tests, is_named_test, is_test_file
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    MEMBERS,
    find_field,
    list_names,
    list_tokens,
    read_chain,
    read_text,
    walk,
)
from gitlab_nightshift.proof.syntax.single_test import Test
from gitlab_nightshift.repository.difference import ChangedFile

_TABLE = RuleTable(__file__)

_TELLS = _TABLE.get_pattern("tells")
_NEVER_RAN = _TABLE.get_pattern("never_ran")


def find_deleted_tests(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Tests that are gone although what they tested is still there."""
    names = find_removed_names(change) if match_tests(change).gone else frozenset()
    gone = [
        version
        for version in match_tests(change).gone
        if not _is_moved_out(version.file)
        and not _is_unreadable(version)
        and not _lost_subject(version, names)
        and not _merged(version, change)
    ]
    for file in change.files:
        mine = [version for version in gone if version.file is file]
        if _is_moved_out(file):
            said = f"{file.old_path} is {file.path} now: no runner collects it."
            yield RuleViolation(file.old_path, 0, said)
        elif file.status == "D" and len(mine) > 1:
            yield RuleViolation(file.path, 0, f"The file is deleted with its {len(mine)} tests.")
        elif file.status == "D" and not mine and _is_other_test(file.path, read_sides(file)[0]):
            yield RuleViolation(file.path, 0, "A file of tests is deleted.")
        else:
            for version in mine:
                yield _report_gone(version, match_tests(change))


def _is_moved_out(file: ChangedFile) -> bool:
    """A file of tests got a name or a place where no runner looks."""
    old, new = file.old_path, file.path
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


def _report_gone(version: TestVersion, tests: MatchedTests) -> RuleViolation:
    """A test whose words another one has is asked about: what is found less than before only
    running shows."""
    path, line, name = version.file.path, version.test.line, version.name
    if twin := _find_twin(version, tests):
        return RuleViolation(path, line, f"{name} is gone: does {twin.name} say the same?", "warn")
    said = f"{name} is gone, though what it tests is still there."
    ran = not any(map(_NEVER_RAN.search, version.test.marks))
    return RuleViolation(path, line, said, certain=None if ran else False)


def _is_other_test(path: str, old: Side) -> bool:
    return old.root is None and is_named_test(path) and "snap" not in path


def _is_unreadable(version: TestVersion) -> bool:
    """A new side that does not parse: the test counts as there where its name is in the text."""
    side = read_sides(version.file)[1]
    if side.root is None or not side.root.has_error:
        return False
    return re.search(rf"\b{re.escape(version.test.name)}\b", side.code) is not None


def _lost_subject(version: TestVersion, names: frozenset[str]) -> bool:
    return bool(names & _list_called_names(version.test))


def _list_called_names(test: Test) -> frozenset[str]:
    """The names that a test calls, reaches into or passes by, and those of types."""
    found = {name for name in list_names(test.node) if name[:1].isupper()}
    for node in walk(test.node):
        if node.type in CALLS | MEMBERS.keys():
            found |= {link.name for link in read_chain(node)}
        elif node.type == "keyword_argument":
            found.add(read_text(find_field(node, "name")))
    return frozenset(found)


def _find_twin(version: TestVersion, tests: MatchedTests) -> TestVersion | None:
    """Another test of the file and group that lives on and has the same body."""
    said = _list_own_words(version)
    alike = (new for _, new in tests.pairs if new.file is version.file)
    return next((new for new in alike if _list_own_words(new) == said), None)


def _list_own_words(version: TestVersion) -> tuple[str, ...]:
    """The names of its groups, and its body."""
    body = version.test.body
    return (*(group.name for group in version.test.groups), *(list_tokens(body) if body else ()))


def _merged(version: TestVersion, change: Changeset) -> bool:
    """Another test of the change has got the values of this one, and looks at the same thing."""
    values, names = (
        _find_values(version),
        _list_called_names(version.test),
    )
    keys = {a.key for a in version.assertions}
    tests = match_tests(change)
    before = {id(new): old for old, new in tests.changed}
    if len(tests.gone) * len(tests.touched) > MOST_PAIRS:
        return False
    for other in tests.touched:
        if keys and keys <= {a.key for a in other.assertions}:
            return True
        if other.assertions and (names - _COMMON) & _list_called_names(other.test):
            old = before.get(id(other))
            said = " ".join(Counter(other.said) - Counter(old.said if old else ()))
            if values and sum(value in said for value in values) >= 0.75 * len(values):
                return True
    return False


_COMMON = _TABLE.get_words("common")


def _find_values(version: TestVersion) -> frozenset[str]:
    """The literals of a test, without those that it only prints when it fails."""
    body = version.test.body or version.test.node
    calls = (node for node in walk(body) if node.type == "call_expression")
    printed = (list_tokens(node) for node in calls if _TELLS.match(read_text(node)[:40]))
    words = Counter(list_tokens(body)) - Counter(chain.from_iterable(printed))
    return frozenset(list_literals(words))
