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
_COMMON = _TABLE.get_words("common")
# Languages whose test runners collect whole folders.
_BY_FOLDER = (".java", ".scala", ".kt", ".rb", ".php", ".cs")
_AWAY = _TABLE.get_pattern("away")  # folders for what is not used
_BY_NAME = _TABLE.get_pattern("by_name")  # names by which a runner finds a test file


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
    if old.endswith(_BY_FOLDER) and is_beside_tests(old) and not is_beside_tests(new):
        return True
    return bool(_AWAY.search(new)) and not _AWAY.search(old)


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
    """True if an added or changed test has all assertions of this one. Or if it uses names of this
    one, and most values of this one were added to it, such as rows of a table."""
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


_SAME = 0.8  # least similarity of the bodies of a function and its renamed version
_FEWEST_WORDS = 6  # of a body with fewer words, similarity says little
_DECLARING = _TABLE.get_words("declaring")


@cache_weakly
def find_removed_names(change: Changeset) -> frozenset[str]:
    """Names that product code no longer declares, except those of renamed functions."""
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
    bags = [(name, bag) for name, bag in bags if bag.total() >= _FEWEST_WORDS]
    renamed = {n for n, bag in bags if any(compute_similarity(bag, b) >= _SAME for b in new)}
    # Short names such as "id" or "i" are declared too often to mean anything.
    return frozenset(name for name in lost - renamed if len(name) > 2)


def _list_declared_names(side: Side) -> Iterator[str]:
    """The names of functions, classes, parameters and fields. No constants: without a body, a
    renamed one would not be recognized."""
    for function in side.functions:
        yield function.name
    for node in side.walk():
        if node.type in _DECLARING:
            named = find_field(node, "name", "pattern") or next(iter(node.named_children), None)
            if named is not None and named.child_count == 0:
                yield read_text(named)


# --- skipped tests --------------------------------------------------------------------------------


_MARK = _TABLE.get_pattern("mark")
_MARK_LINE = _TABLE.get_pattern("mark_line")
_LONGEST = 2000
_CALL = _TABLE.get_words("call")
_CALLED_ALONE = (_CALL | {"cancel"}) - frozenset("Skip Ignore todo".split())
# Nodes by which code leaves a test early.
_EXITS = frozenset("return_statement return return_expression break_statement".split())
_RUBY_BODIES = frozenset("body_statement block_body then if_modifier unless_modifier".split())
_BARE_WORDS = frozenset(("skip", "pending", "omit"))  # Ruby: calls without arguments
_OWNERS = _TABLE.get_words("owners")
_CONDITIONAL_LOOPS = _TABLE.get_words("conditional_loops")
_HANDLERS = frozenset(("except_clause", "rescue"))
_DECIDING = frozenset("if_statement if if_expression while_statement elsif".split())
_NO_VALUES = frozenset("None null undefined nil true ()".split())
_DEEPEST = 40  # levels around a node in which its condition is looked for
_IFS = frozenset("if_statement if if_expression if_modifier unless unless_modifier".split())
_FALSE = _TABLE.get_pattern("false")
_REASON = _TABLE.get_pattern("reason")
_TRUE = _TABLE.get_pattern("true")
_DECIDES = _TABLE.get_pattern("decides")
_NEGATED = _TABLE.get_pattern("negated")
_ELSEWHERE = _TABLE.get_pattern("elsewhere")
_CONDITIONAL = _TABLE.get_pattern("conditional")
_CHECKS_ENVIRONMENT = _TABLE.get_pattern("checks_environment")
_ALWAYS = compile_lazily(r"(?i)\(\s*(true|1|not false)\b")
_FOCUS = compile_lazily(r"\b(only|focus|fit|fdescribe|fcontext|ftest)\b")


def find_skipped_tests(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Tests that a mark, a call, a condition, a comment or a setting keeps from running."""
    tests = match_tests(change)
    reported: set[tuple[str, int]] = set()  # a group's mark counts once, not for each of its tests
    for old, new in [*tests.pairs, *((None, version) for version in tests.added)]:
        for found in _find_skip_marks(new, old):
            if (found.file, found.line) not in reported:
                reported.add((found.file, found.line))
                yield found
        if old is None or old.words != new.words:
            yield from _find_new_stops(new, old)
    for was, helper in tests.helpers:
        if was is not None and was.assertions:
            yield from _find_new_stops(helper, was)
    for file in change.files:
        yield from _find_file_skips(file)


def _find_skip_marks(version: TestVersion, old: TestVersion | None) -> Iterator[RuleViolation]:
    """The first added mark that skips the test. A conditional mark may replace another of the same
    kind. With a new test it may be added, unless it depends on the environment."""
    before = [mark for mark, *_ in _list_marks(old)] if old else []
    known = Counter(map(_strip_reason, before))
    kinds = {_parse_mark_name(mark) for mark in before if old and _skips(mark, old)}
    if version.test.body is None and (old is None or old.test.body is None):
        return
    for mark, name, line in _list_marks(version):
        # On a condition such as a platform, a version or a program.
        depends = bool(_CONDITIONAL.search(mark)) and not _ALWAYS.search(mark)
        own = old is None and not _CHECKS_ENVIRONMENT.search(mark)
        if take(known, _strip_reason(mark)):
            continue
        if _skips(mark, version) and not (depends and (own or _parse_mark_name(mark) in kinds)):
            focused = "focused now, so other tests are not run"
            how = focused if _FOCUS.search(mark) else "skipped now"
            detail = f"{name} is {how} ({format_excerpt(mark)})."
            level, certain = _choose_level(mark, old is None), old is not None and not depends
            yield RuleViolation(version.file.path, line, detail, level, certain)
            return
    if version.test.body is None:
        detail = f"{version.name} no longer has a body."
        yield RuleViolation(version.file.path, version.test.line, detail)


def _list_marks(version: TestVersion) -> Iterator[tuple[str, str, int]]:
    """The marks of a test and its groups, each with the name and line of what it marks."""
    test = version.test
    places = [(group.marks, format_excerpt(group.name), group.line) for group in test.groups]
    for marks, name, line in (*places, (test.marks, version.name, test.line)):
        yield from ((mark, name, line) for mark in marks)


def _skips(mark: str, version: TestVersion) -> bool:
    """True if a mark keeps a test from running, directly or by its definition in the file:
    ``needs_db = pytest.mark.skipif(…)``."""
    if _MARK.search(mark[:_LONGEST]):
        return True
    named = version.side.definitions.get(mark[1:], ()) if mark[:1] == "@" else ()
    return any(re.search(r"=.*\b(skip|xfail)", read_text(node)[:500], re.S) for node in named)


def _strip_reason(mark: str) -> str:
    return _REASON.sub("", mark)


def _parse_mark_name(mark: str) -> str:
    return mark.split("(", maxsplit=1)[0]


def _choose_level(condition: str, new: bool) -> Level | None:
    """The level of a skip by a condition; None is the flag's own. A warning is enough if the test
    still runs elsewhere, or if a new test comes with a feature (Rust)."""
    if _NEGATED.search(condition):
        return None
    own_feature = new and "feature" in condition
    return "warn" if own_feature or _ELSEWHERE.search(condition) else None


def _find_new_stops(version: TestVersion, old: TestVersion | None) -> Iterator[RuleViolation]:
    """Added calls that skip, exits before the assertions, and conditions that never hold."""
    before = Counter(code for code, *_ in _list_stops(old)) if old else Counter[str]()
    for code, line, condition in _list_stops(version):
        if old is None and condition and not _CHECKS_ENVIRONMENT.search(condition):
            continue
        if take(before, code):
            continue
        detail = f"{version.name} does not run to its end: {format_excerpt(code)}"
        level = _choose_level(condition, False)
        certain = old is not None and (not condition or bool(_TRUE.match(condition)))
        yield RuleViolation(version.file.path, line, detail, level, certain)


def _list_stops(version: TestVersion) -> Iterator[tuple[str, int, str]]:
    """Code that ends a test early, its line, and the condition that it depends on, or ""."""
    body, last = version.test.body, max((a.line for a in version.assertions), default=0)
    for node in walk(body) if body is not None else ():
        line = read_line_number(node)
        condition = find_field(node, "condition") if node.type in _DECIDING else None
        if condition is not None and _FALSE.match(read_text(condition)):
            yield f"if {read_text(condition)}", line, ""
        elif _is_skip(node, version) or (line <= last and _is_early(node, version)):
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


def _is_skip(node: Node, version: TestVersion) -> bool:
    """``pytest.skip()``, ``t.Skip()``, ``assumeTrue(…)``, ``skip "later"``."""
    ruby = version.test.language.name == "ruby"
    if ruby and node.type == "identifier" and read_text(node) in _BARE_WORDS:
        return node.parent is not None and node.parent.type in _RUBY_BODIES
    links = read_chain(node) if node.type in CALLS else ()
    if not links or links[-1].args is None or len(links) > 3:
        return False
    first, name = links[0].name, links[-1].name
    if len(links) == 1:
        return name in _CALLED_ALONE or (name == "omit" and ruby)
    owned = first in _OWNERS or first.endswith("T()")
    return owned and name in _CALL and not (name == "Skip" and len(links) == 3)


def _is_early(node: Node, version: TestVersion) -> bool:
    """True for a return or break of the test itself, not of a function in it. To return a value,
    such as a promise, is no early exit."""
    if node.type not in _EXITS or not node.is_named:
        return False
    if any(read_text(value) not in _NO_VALUES for value in list_children(node)[:1]):
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
    deleted = {each.text.strip() for each in file.deleted}
    for added in file.added:
        line = added.text.strip()
        if _MARK_LINE.search(added.text[:_LONGEST]) and line not in deleted:
            statement = "".join(file.new_lines[added.number - 1 : added.number + 3])
            detail = f"The whole file is skipped now: {format_excerpt(line)}"
            level = _choose_level(statement[:_LONGEST], file.status == "A")
            certain = file.status != "A" and not _DECIDES.search(line[:_LONGEST])
            yield RuleViolation(file.path, added.number, detail, level, certain)
