"""test-deleted: tests that were deleted although the code they tested still exists."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from weakref import WeakKeyDictionary

from gitlab_nightshift.proof.reading.matched_tests import (
    MOST_PAIRS,
    MatchedTests,
    TestVersion,
    compute_similarity,
    count_words,
    list_literals,
    match_tests,
)
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.collected_tests import Test
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.languages import (
    beside_tests,
    has_inline_tests,
    is_named_test,
    is_test_file,
)
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
from gitlab_nightshift.repository.difference import ChangedFile

_TABLE = RuleTable(__file__)
_PRINTS_FAILURE = _TABLE.get_pattern("prints_failure")
_NEVER_RAN = _TABLE.get_pattern("never_ran")
_COMMON = _TABLE.get_words("common")
# Languages whose runners collect tests by folder.
_BY_PLACE = (".java", ".scala", ".kt", ".rb", ".php", ".cs")
_AWAY = _TABLE.get_pattern("away")
_BY_NAME = _TABLE.get_pattern("by_name")


def find_deleted_tests(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Tests that were deleted although the code they tested still exists."""
    tests = match_tests(change)
    names = find_removed_names(change) if tests.removed else frozenset()
    deleted = [
        version
        for version in tests.removed
        if not _is_moved_out(version.file)
        and not _is_unreadable(version)
        and not names & _list_used_names(version.test)
        and not _is_merged(version, tests)
    ]
    for file in change.files:
        mine = [version for version in deleted if version.file is file]
        if _is_moved_out(file):
            detail = f"{file.old_path} is {file.path} now: no runner collects it."
            yield RuleViolation(file.old_path, 0, detail)
        elif file.status == "D" and len(mine) > 1:
            yield RuleViolation(file.path, 0, f"The file is deleted with its {len(mine)} tests.")
        elif file.status == "D" and not mine and _is_unparsed_test(file):
            yield RuleViolation(file.path, 0, "A test file is deleted.")
        else:
            yield from (_report_deleted(version, tests) for version in mine)


def _is_moved_out(file: ChangedFile) -> bool:
    """True for a test file that got a name or a folder in which no runner looks for tests."""
    old, new = file.old_path, file.path
    if old == new or not is_test_file(old) or has_inline_tests(old):
        return False
    if not is_test_file(new) or (_BY_NAME.search(old) and not _BY_NAME.search(new)):
        return True
    if old.endswith(_BY_PLACE) and beside_tests(old) and not beside_tests(new):
        return True
    return bool(_AWAY.search(new)) and not _AWAY.search(old)


def _report_deleted(version: TestVersion, tests: MatchedTests) -> RuleViolation:
    """Only a warning for a duplicate: whether the other test notices the same faults is shown only
    by running it."""
    path, line, name = version.file.path, version.test.line, version.name
    words = _list_words_in_groups(version)
    others = (new for _, new in tests.pairs if new.file is version.file)
    if twin := next((new for new in others if _list_words_in_groups(new) == words), None):
        return RuleViolation(path, line, f"{name} is gone: does {twin.name} say the same?", "warn")
    detail = f"{name} is gone, though what it tests still exists."
    ran = not any(map(_NEVER_RAN.search, version.test.marks))
    return RuleViolation(path, line, detail, certain=None if ran else False)


def _is_unparsed_test(file: ChangedFile) -> bool:
    """True for a test file of an unsupported language; a snapshot is made again by its test."""
    unparsed = read_sides(file)[0].root is None
    return unparsed and is_named_test(file.path) and "snap" not in file.path


def _is_unreadable(version: TestVersion) -> bool:
    """True if the new side has syntax errors, and the test's name is still in its text."""
    side = read_sides(version.file)[1]
    if side.root is None or not side.root.has_error:
        return False
    return re.search(rf"\b{re.escape(version.test.name)}\b", side.code) is not None


def _list_used_names(test: Test) -> frozenset[str]:
    """The names that a test calls, accesses or passes keyword arguments by, and those of types."""
    found = {name for name in list_names(test.node) if name[:1].isupper()}
    for node in walk(test.node):
        if node.type in CALLS | MEMBERS.keys():
            found |= {link.name for link in read_chain(node)}
        elif node.type == "keyword_argument":
            found.add(read_text(find_field(node, "name")))
    return frozenset(found)


def _list_words_in_groups(version: TestVersion) -> tuple[str, ...]:
    """The names of a test's groups, and the words of its body."""
    body = version.test.body
    return (*(group.name for group in version.test.groups), *(list_tokens(body) if body else ()))


def _is_merged(version: TestVersion, tests: MatchedTests) -> bool:
    """True if an added or changed test has all assertions of this one, or uses the same names and
    has most of its values, such as new rows of a table."""
    values, names = _find_values(version), _list_used_names(version.test)
    keys = {a.key for a in version.assertions}
    before = {id(new): old for old, new in tests.changed}
    if len(tests.removed) * len(tests.touched) > MOST_PAIRS:
        return False
    for other in tests.touched:
        if keys and keys <= {a.key for a in other.assertions}:
            return True
        if other.assertions and (names - _COMMON) & _list_used_names(other.test):
            old = before.get(id(other))
            added = " ".join(Counter(other.all_words) - Counter(old.all_words if old else ()))
            if values and sum(value in added for value in values) >= 0.75 * len(values):
                return True
    return False


def _find_values(version: TestVersion) -> frozenset[str]:
    """The literals of a test, without those in messages about its failure."""
    body = version.test.body or version.test.node
    calls = (node for node in walk(body) if node.type == "call_expression")
    printed = (list_tokens(node) for node in calls if _PRINTS_FAILURE.match(read_text(node)[:40]))
    words = Counter(list_tokens(body)) - Counter(chain.from_iterable(printed))
    return frozenset(list_literals(words))


# Similarity of a renamed function's body, and the words of one too short to tell.
_SAME, _TOO_SHORT = 0.8, 6
_REMOVED: WeakKeyDictionary[Changeset, frozenset[str]] = WeakKeyDictionary()
_DECLARING = _TABLE.get_words("declaring")


def find_removed_names(change: Changeset) -> frozenset[str]:
    """Names that product code no longer declares, without those of renamed functions."""
    if change not in _REMOVED:
        _REMOVED[change] = _compute_removed_names(change)
    return _REMOVED[change]


def _compute_removed_names(change: Changeset) -> frozenset[str]:
    both = [read_sides(file) for file in change.files if read_sides(file)[0].is_product]
    after = {name for file in change.files for name in _list_declared_names(read_sides(file)[1])}
    lost = {name for old, _ in both for name in _list_declared_names(old)} - after
    gone = [function for old, _ in both for function in old.functions if function.name in lost]
    before = {function.qualified for old, _ in both for function in old.functions}
    new = [
        count_words(function.body)
        for file in change.files
        for function in read_sides(file)[1].functions
        if function.qualified not in before
    ]
    if len(gone) * len(new) > MOST_PAIRS:
        return frozenset()
    # A renamed function has nearly the same body.
    bags = [(function.name, count_words(function.body)) for function in gone]
    bags = [(name, bag) for name, bag in bags if bag.total() >= _TOO_SHORT]
    renamed = {n for n, bag in bags if any(compute_similarity(bag, b) >= _SAME for b in new)}
    # Short names such as "id" or "i" are declared too often to mean anything.
    return frozenset(name for name in lost - renamed if len(name) > 2)


def _list_declared_names(side: Side) -> Iterator[str]:
    """Functions, classes, parameters and fields. No constants, as a renamed one is not recognized:
    it has no body."""
    for function in side.functions:
        yield function.name
    for node in side.walk():
        if node.type in _DECLARING:
            named = find_field(node, "name", "pattern") or next(iter(node.named_children), None)
            if named is not None and named.child_count == 0:
                yield read_text(named)
