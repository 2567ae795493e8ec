"""Tests that no longer run: deleted although the code they tested still exists (test-deleted), or
skipped, or ended before their assertions (test-skipped)."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain, takewhile

from tree_sitter import Node

from gitlab_nightshift.proof.reading.matched_tests import (
    MOST_PAIRS,
    MatchedTests,
    TestVersion,
    compute_similarity,
    count_words,
    list_literals,
    match_tests,
)
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation, take
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.definitions import Test
from gitlab_nightshift.proof.syntax.file_side import Side, cache_weakly, read_sides
from gitlab_nightshift.proof.syntax.languages import (
    has_inline_tests,
    has_test_name,
    is_beside_tests,
    is_test_file,
)
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    FUNCTIONS,
    LAMBDAS,
    MEMBERS,
    find_field,
    list_children,
    list_enclosing,
    list_names,
    list_tokens,
    read_chain,
    read_line_number,
    read_text,
    walk,
)
from gitlab_nightshift.registry.flag_registry import Level
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

_TABLE = RuleTable(__file__)
_PRINTS_FAILURE = _TABLE.get_pattern("prints_failure")
_NEVER_RAN = _TABLE.get_pattern("never_ran")
_COMMON_NAMES = _TABLE.get_words("common_names")
# Languages whose test runners collect whole folders.
_COLLECTED_BY_FOLDER = (".java", ".scala", ".kt", ".rb", ".php", ".cs")
_UNUSED_FOLDERS = _TABLE.get_pattern("unused_folders")  # folders for what is not used
_TEST_NAMES = _TABLE.get_pattern("test_names")  # file names by which a runner finds tests


def find_deleted_tests(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Tests that were deleted although the code they tested still exists."""
    tests = match_tests(change)
    removed_names = find_removed_names(change) if tests.removed else frozenset()
    deleted = [
        version
        for version in tests.removed
        if not _is_moved_out(version.file)
        and not _is_unreadable(version)
        and not removed_names & _list_used_names(version.test)
        and not _is_merged(version, tests)
    ]
    for file in change.files:
        of_file = [version for version in deleted if version.file is file]
        if _is_moved_out(file):
            detail = f"{file.old_path} is {file.path} now: no runner collects it."
            yield RuleViolation(file.old_path, 0, detail)
        elif file.status == "D" and len(of_file) > 1:
            yield RuleViolation(file.path, 0, f"The file is deleted with its {len(of_file)} tests.")
        elif file.status == "D" and not of_file and _is_unparsed_test(file):
            yield RuleViolation(file.path, 0, "A test file is deleted.")
        else:
            yield from (_report_deleted(version, tests) for version in of_file)


def _is_moved_out(file: ChangedFile) -> bool:
    """True for a test file that got a name or a folder in which no runner looks for tests."""
    old, new = file.old_path, file.path
    if old == new or not is_test_file(old) or has_inline_tests(old):
        return False
    if not is_test_file(new) or (_TEST_NAMES.search(old) and not _TEST_NAMES.search(new)):
        return True
    if old.endswith(_COLLECTED_BY_FOLDER) and is_beside_tests(old) and not is_beside_tests(new):
        return True
    return bool(_UNUSED_FOLDERS.search(new)) and not _UNUSED_FOLDERS.search(old)


def _report_deleted(version: TestVersion, tests: MatchedTests) -> RuleViolation:
    """The violation for a deleted test. For a duplicate it is only a warning: whether the other
    test notices the same faults is shown by running it."""
    path, line, name = version.file.path, version.test.line, version.name
    words = _list_words_in_groups(version)
    others = (new for _, new in tests.pairs if new.file is version.file)
    if twin := next((new for new in others if _list_words_in_groups(new) == words), None):
        return RuleViolation(path, line, f"{name} is gone: does {twin.name} say the same?", "warn")
    detail = f"{name} is gone, though what it tests still exists."
    ran = not any(map(_NEVER_RAN.search, version.test.marks))
    return RuleViolation(path, line, detail, certain=None if ran else False)


def _is_unparsed_test(file: ChangedFile) -> bool:
    """True for a test file of an unsupported language, except a snapshot, which its test makes."""
    unparsed = read_sides(file)[0].root is None
    return unparsed and has_test_name(file.path) and "snap" not in file.path


def _is_unreadable(version: TestVersion) -> bool:
    """True if the new side has syntax errors, and the test's name is still in its text."""
    side = read_sides(version.file)[1]
    if side.root is None or not side.root.has_error:
        return False
    return re.search(rf"\b{re.escape(version.test.name)}\b", side.code) is not None


def _list_used_names(test: Test) -> frozenset[str]:
    """The names that a test calls or accesses, and those of keyword arguments and types."""
    found = {name for name in list_names(test.node) if name[:1].isupper()}
    for node in walk(test.node):
        if node.type in CALLS | MEMBERS.keys():
            found |= {link.name for link in read_chain(node)}
        elif node.type == "keyword_argument":
            found.add(read_text(find_field(node, "name")))
    return frozenset(found)


def _list_words_in_groups(version: TestVersion) -> tuple[str, ...]:
    """The names of the groups around a test, and the words of its body."""
    body = version.test.body
    return (*(group.name for group in version.test.groups), *(list_tokens(body) if body else ()))


def _is_merged(version: TestVersion, tests: MatchedTests) -> bool:
    """True if an added or changed test has all assertions of this one, or uses names of this one
    and got most of its values, such as rows of a table."""
    values, names = _list_values(version), _list_used_names(version.test) - _COMMON_NAMES
    keys = {a.key for a in version.assertions}
    old_versions = {id(new): old for old, new in tests.changed}
    if len(tests.removed) * len(tests.touched) > MOST_PAIRS:
        return False
    for other in tests.touched:
        if keys and keys <= {a.key for a in other.assertions}:
            return True
        if other.assertions and names & _list_used_names(other.test):
            old = old_versions.get(id(other))
            added = " ".join(Counter(other.all_words) - Counter(old.all_words if old else ()))
            if values and sum(value in added for value in values) >= 0.75 * len(values):
                return True
    return False


def _list_values(version: TestVersion) -> frozenset[str]:
    """The literals of a test, without those in messages that it prints if it fails."""
    body = version.test.body or version.test.node
    calls = (node for node in walk(body) if node.type == "call_expression")
    printed = (list_tokens(node) for node in calls if _PRINTS_FAILURE.match(read_text(node)[:40]))
    words = Counter(list_tokens(body)) - Counter(chain.from_iterable(printed))
    return frozenset(list_literals(words))


_RENAMED_SIMILARITY = 0.8  # least similarity of the bodies of a function and its renamed version
_FEWEST_WORDS = 6  # of a body with fewer words, similarity says little
_DECLARING = _TABLE.get_words("declaring")


@cache_weakly
def find_removed_names(change: Changeset) -> frozenset[str]:
    """Names that product code no longer declares, except those of renamed functions."""
    olds = [side for side, _ in map(read_sides, change.files) if side.is_product]
    news = [side for _, side in map(read_sides, change.files)]
    kept = {name for side in news for name in _list_declared_names(side)}
    gone = {name for side in olds for name in _list_declared_names(side)} - kept
    gone_functions = [each for side in olds for each in side.functions if each.name in gone]
    before = {function.qualified for side in olds for function in side.functions}
    new_functions = [f for side in news for f in side.functions if f.qualified not in before]
    if len(gone_functions) * len(new_functions) > MOST_PAIRS:
        return frozenset()
    # A renamed function has nearly the same body.
    bodies = [count_words(function.body) for function in new_functions]
    renamed = set()
    for function in gone_functions:
        body = count_words(function.body)
        similar = (compute_similarity(body, other) >= _RENAMED_SIMILARITY for other in bodies)
        if body.total() >= _FEWEST_WORDS and any(similar):
            renamed.add(function.name)
    # Short names such as "id" or "i" are declared too often to mean anything.
    return frozenset(name for name in gone - renamed if len(name) > 2)


def _list_declared_names(side: Side) -> Iterator[str]:
    """The names of functions, classes, parameters and fields. No constants: without a body, a
    renamed one would not be recognized."""
    for function in side.functions:
        yield function.name
    for node in side.walk():
        if node.type in _DECLARING:
            name = find_field(node, "name", "pattern") or next(iter(node.named_children), None)
            if name is not None and name.child_count == 0:
                yield read_text(name)


# --- skipped tests --------------------------------------------------------------------------------


_SKIP_MARK = _TABLE.get_pattern("skip_mark")
_FILE_SKIP_LINE = _TABLE.get_pattern("file_skip_line")
_LONGEST_LINE = 2000  # characters of a line or mark
_SKIP_CALLS = _TABLE.get_words("skip_calls")
_PLAIN_SKIP_CALLS = (_SKIP_CALLS | {"cancel"}) - frozenset("Skip Ignore todo".split())
# Nodes by which code leaves a test early.
_EXIT_NODES = frozenset("return_statement return return_expression break_statement".split())
_RUBY_BODIES = frozenset("body_statement block_body then if_modifier unless_modifier".split())
_RUBY_SKIPS = frozenset(("skip", "pending", "omit"))  # Ruby: calls without arguments
_SKIP_OBJECTS = _TABLE.get_words("skip_objects")
_CONDITIONAL_LOOPS = _TABLE.get_words("conditional_loops")
_HANDLERS = frozenset(("except_clause", "rescue"))
_DECISIONS = frozenset("if_statement if if_expression while_statement elsif".split())
_EMPTY_RETURNS = frozenset("None null undefined nil true ()".split())
_DEEPEST = 40  # levels around a node in which its condition is looked for
_IFS = frozenset("if_statement if if_expression if_modifier unless unless_modifier".split())
_ALWAYS_FALSE = _TABLE.get_pattern("always_false")
_REASON = _TABLE.get_pattern("reason")
_ALWAYS_TRUE = _TABLE.get_pattern("always_true")
_CONDITIONAL_LINE = _TABLE.get_pattern("conditional_line")
_NEGATED = _TABLE.get_pattern("negated")
_RUNS_ELSEWHERE = _TABLE.get_pattern("runs_elsewhere")
_CONDITIONAL_MARK = _TABLE.get_pattern("conditional_mark")
_CHECKS_ENVIRONMENT = _TABLE.get_pattern("checks_environment")
_ALWAYS_SKIPS = compile_lazily(r"(?i)\(\s*(true|1|not false)\b")
_FOCUS = compile_lazily(r"\b(only|focus|fit|fdescribe|fcontext|ftest)\b")


def find_skipped_tests(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Tests that a mark, a call, a condition, a comment or a setting keeps from running."""
    tests = match_tests(change)
    reported: set[tuple[str, int]] = set()  # a group's mark counts once, not for each of its tests
    for old, new in [*tests.pairs, *((None, version) for version in tests.added)]:
        for violation in _find_skip_marks(new, old):
            if (violation.file, violation.line) not in reported:
                reported.add((violation.file, violation.line))
                yield violation
        if old is None or old.words != new.words:
            yield from _find_new_exits(new, old)
    for old_helper, helper in tests.helpers:
        if old_helper is not None and old_helper.assertions:
            yield from _find_new_exits(helper, old_helper)
    for file in change.files:
        yield from _find_file_skips(file)


def _find_skip_marks(version: TestVersion, old: TestVersion | None) -> Iterator[RuleViolation]:
    """The first added mark that skips the test. A conditional mark may replace another of the same
    kind. With a new test it may be added, unless it depends on the environment."""
    before = [mark for mark, *_ in _list_marks(old)] if old else []
    counts = Counter(map(_strip_reason, before))
    kinds = {_parse_mark_name(mark) for mark in before if old and _is_skipping(mark, old)}
    if version.test.body is None and (old is None or old.test.body is None):
        return
    for mark, name, line in _list_marks(version):
        if take(counts, _strip_reason(mark)) or not _is_skipping(mark, version):
            continue
        # Such as a platform, a version or a program.
        conditional = bool(_CONDITIONAL_MARK.search(mark)) and not _ALWAYS_SKIPS.search(mark)
        for_new_test = old is None and not _CHECKS_ENVIRONMENT.search(mark)
        if conditional and (for_new_test or _parse_mark_name(mark) in kinds):
            continue
        focused = "focused now, so other tests are not run"
        how = focused if _FOCUS.search(mark) else "skipped now"
        detail = f"{name} is {how} ({format_excerpt(mark)})."
        level = _choose_skip_level(mark, is_new=old is None)
        certain = old is not None and not conditional
        yield RuleViolation(version.file.path, line, detail, level, certain)
        return
    if version.test.body is None:
        detail = f"{version.name} no longer has a body."
        yield RuleViolation(version.file.path, version.test.line, detail)


def _list_marks(version: TestVersion) -> Iterator[tuple[str, str, int]]:
    """The marks of a test and its groups, each with the name and line of what it marks."""
    for group in version.test.groups:
        yield from ((mark, format_excerpt(group.name), group.line) for mark in group.marks)
    yield from ((mark, version.name, version.test.line) for mark in version.test.marks)


def _is_skipping(mark: str, version: TestVersion) -> bool:
    """True if a mark keeps a test from running, directly or by its definition in the file:
    ``needs_db = pytest.mark.skipif(…)``."""
    if _SKIP_MARK.search(mark[:_LONGEST_LINE]):
        return True
    nodes = version.side.definitions.get(mark[1:], ()) if mark[:1] == "@" else ()
    return any(re.search(r"=.*\b(skip|xfail)", read_text(node)[:500], re.S) for node in nodes)


def _strip_reason(mark: str) -> str:
    return _REASON.sub("", mark)


def _parse_mark_name(mark: str) -> str:
    return mark.split("(", maxsplit=1)[0]


def _choose_skip_level(condition: str, *, is_new: bool) -> Level | None:
    """The level of a skip by a condition; None is the flag's own. A warning is enough if the test
    still runs elsewhere, or if a new test comes with a feature (Rust)."""
    if _NEGATED.search(condition):
        return None
    for_feature = is_new and "feature" in condition
    return "warn" if for_feature or _RUNS_ELSEWHERE.search(condition) else None


def _find_new_exits(version: TestVersion, old: TestVersion | None) -> Iterator[RuleViolation]:
    """Added calls that skip, exits before the assertions, and conditions that never hold."""
    before = Counter(code for code, *_ in _list_exits(old)) if old else Counter[str]()
    for code, line, condition in _list_exits(version):
        if old is None and condition and not _CHECKS_ENVIRONMENT.search(condition):
            continue
        if take(before, code):
            continue
        detail = f"{version.name} does not run to its end: {format_excerpt(code)}"
        level = _choose_skip_level(condition, is_new=False)
        certain = old is not None and (not condition or bool(_ALWAYS_TRUE.match(condition)))
        yield RuleViolation(version.file.path, line, detail, level, certain)


def _list_exits(version: TestVersion) -> Iterator[tuple[str, int, str]]:
    """Code that ends a test early, its line, and the condition that it depends on, or ""."""
    body = version.test.body
    last_line = max((assertion.line for assertion in version.assertions), default=0)
    for node in walk(body) if body is not None else ():
        line = read_line_number(node)
        condition = find_field(node, "condition") if node.type in _DECISIONS else None
        if condition is not None and _ALWAYS_FALSE.match(read_text(condition)):
            yield f"if {read_text(condition)}", line, ""
        elif _is_skip_call(node, version) or (line <= last_line and _is_early_exit(node, version)):
            yield read_text(node), line, _find_condition(node, version)


def _find_condition(node: Node, version: TestVersion) -> str:
    """The condition around a call or an exit, or ""; for an assumption, the call itself."""
    call = read_text(node)
    if re.search(r"(?i)assum|skip_?(if|unless)|importorskip", call[:60]) and "false)" not in call:
        return call
    for outer in _list_enclosing(node, version.test.body):
        if outer.type in _IFS:
            return read_text(find_field(outer, "condition"))
        if outer.type in _HANDLERS:
            return read_text(outer).partition("\n")[0]
    return ""


def _list_enclosing(node: Node, body: Node | None) -> Iterator[Node]:
    """The nodes around a node of a test, the innermost first."""
    return takewhile(lambda outer: outer != body, list_enclosing(node, _DEEPEST))


def _is_skip_call(node: Node, version: TestVersion) -> bool:
    """``pytest.skip()``, ``t.Skip()``, ``assumeTrue(…)``, ``skip "later"``."""
    ruby = version.test.language.name == "ruby"
    if ruby and node.type == "identifier" and read_text(node) in _RUBY_SKIPS:
        return node.parent is not None and node.parent.type in _RUBY_BODIES
    links = read_chain(node) if node.type in CALLS else ()
    if not links or links[-1].args is None or len(links) > 3:
        return False
    first, name = links[0].name, links[-1].name
    if len(links) == 1:
        return name in _PLAIN_SKIP_CALLS or (name == "omit" and ruby)
    on_test = first in _SKIP_OBJECTS or first.endswith("T()")
    return on_test and name in _SKIP_CALLS and not (name == "Skip" and len(links) == 3)


def _is_early_exit(node: Node, version: TestVersion) -> bool:
    """True for a return or break of the test itself, not of a function in it. Returning a value,
    such as a promise, is no early exit."""
    if node.type not in _EXIT_NODES or not node.is_named:
        return False
    if any(read_text(value) not in _EMPTY_RETURNS for value in list_children(node)[:1]):
        return False
    return not any(
        (each.type in LAMBDAS and each.type not in ("block", "do_block"))
        or each.type in _CONDITIONAL_LOOPS | FUNCTIONS
        for each in _list_enclosing(node, version.test.body)
    )


def _find_file_skips(file: ChangedFile) -> Iterator[RuleViolation]:
    """Added lines that skip a whole file."""
    after = read_sides(file)[1]
    if after.language is None or (after.is_product and not after.is_test_file):
        return
    deleted = {line.text.strip() for line in file.deleted}
    for added in file.added:
        line = added.text.strip()
        if _FILE_SKIP_LINE.search(added.text[:_LONGEST_LINE]) and line not in deleted:
            statement = "".join(file.new_lines[added.number - 1 : added.number + 3])
            detail = f"The whole file is skipped now: {format_excerpt(line)}"
            is_new = file.status == "A"
            level = _choose_skip_level(statement[:_LONGEST_LINE], is_new=is_new)
            certain = not is_new and not _CONDITIONAL_LINE.search(line[:_LONGEST_LINE])
            yield RuleViolation(file.path, added.number, detail, level, certain)
