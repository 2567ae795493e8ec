"""test-cannot-fail: assertions that hold whatever the code does."""

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.verdict.flags.blunted_harness import find_blunted_harness
from gitlab_nightshift.verdict.flags.matched_tests import (
    TestVersion,
    match_helpers,
    match_tests,
)
from gitlab_nightshift.verdict.flags.unreached_assertions import (
    find_empty_loops,
    find_swallowed_assertions,
    find_unawaited_assertions,
)
from gitlab_nightshift.verdict.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.assertion import Assertion
from gitlab_nightshift.verdict.syntax.assertion_words import RAISES, normalize_name
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    COMMENTS,
    LITERALS,
    list_names,
    read_text,
    split_binary,
    unwrap_node,
    walk,
)
from gitlab_nightshift.verdict.syntax.variable_values import read_assignment, resolve_variables

_TABLE = RuleTable(__file__)

_ABOUT_EQUALITY = _TABLE.get_pattern("about_equality")
_ABOUT_SAMENESS = _TABLE.get_pattern("about_sameness")
_ABOUT_OTHERS = _TABLE.get_words("about_others")


def find_tests_that_cannot_fail(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Assertions that came and can never fail."""
    tests = match_tests(change)
    pairs = (*tests.changed, *((None, new) for new in tests.came), *match_helpers(change))
    for old, version in pairs:
        known = {why for why, _ in _list_certain_assertions(old)} if old else set()
        reported: set[int] = set()
        beside = _list_lines_beside(version, old)
        for why, at in _list_certain_assertions(version):
            if why not in known and at not in reported:
                reported.add(at)
                detail = f"{version.name} cannot fail: {why}"
                yield RuleViolation(version.file.path, at, detail, certain=at not in beside)
    yield from find_blunted_harness(change)


def _list_lines_beside(version: TestVersion, old: TestVersion | None) -> set[int]:
    """Assertions that hold by their words alone in a test that demands other things, and no less
    than before: one may ask them of an operator."""
    by_words = {a.line for a in version.assertions if _describe_certainty(a, version)}
    lost = Counter(a.key for a in old.assertions) if old else Counter()
    lost -= Counter(a.key for a in version.assertions)
    others = any(a.line not in by_words for a in version.assertions)
    return by_words if others and not lost else set()


def _list_certain_assertions(version: TestVersion) -> Iterator[tuple[str, int]]:
    for assertion in version.assertions:
        if why := _describe_certainty(assertion, version):
            yield f"{why}: {format_excerpt(' '.join(assertion.key))}", assertion.line
    if version.test.body is not None:
        yield from find_swallowed_assertions(version.assertions, version.test.body)
        yield from find_empty_loops(version, version.test.body)
        if version.test.language.name in ("javascript", "typescript", "tsx"):
            yield from find_unawaited_assertions(version, version.test.body)


def _describe_certainty(assertion: Assertion, version: TestVersion) -> str:
    """Why an assertion always holds; empty where it may fail."""
    parts = [unwrap_node(part) for part in assertion.parts]
    if assertion.word in RAISES or assertion.word in _ABOUT_OTHERS:
        return ""
    if not parts:
        return ""
    return _describe_by_parts(assertion, parts) or (
        _compare_sides(parts[0], parts[1], version)
        if len(parts) > 1 and not assertion.negated and _is_comparing(assertion)
        else ""
    )


def _describe_by_parts(assertion: Assertion, parts: list[Node]) -> str:
    is_truth = assertion.word == "true"
    if is_truth and parts[0].type == "tuple":
        return "a tuple is always true"
    never = is_truth and assertion.negated and re.match(r"(?i)true$|1$", read_text(parts[0]))
    if all(map(_is_constant, parts[:2])) and (len(parts) > 1 or is_truth) and not never:
        return "it compares constants"
    if is_truth and _is_constant(parts[0]) and not assertion.negated:
        return "it checks a constant"
    if is_truth and not assertion.negated and _leaves_no_choice(parts[0]):
        return "it holds for every value"
    return ""


def _leaves_no_choice(node: Node) -> bool:
    """``x or True``."""
    operator, *sides = split_binary(node) or ("",)
    return operator in ("or", "||") and any(read_text(side).lower() == "true" for side in sides)


_COMPARING = _TABLE.get_words("comparing")


def _is_comparing(assertion: Assertion) -> bool:
    return "equal" in assertion.word or assertion.word in _COMPARING


def _is_constant(node: Node) -> bool:
    """A literal, or a list of literals."""
    return node.type in LITERALS and not any(
        each.type in ("interpolation", "template_substitution") for each in node.children
    )


def _compare_sides(one: Node, other: Node, version: TestVersion) -> str:
    """Both sides are the same code, directly or through a variable that is named as expected."""
    left, right = read_text(one), read_text(other)
    named = _ABOUT_SAMENESS.search(version.test.name)
    has_call = any(node.type in CALLS for side in (one, other) for node in walk(side))
    if left == right:
        meant = named if has_call else _ABOUT_EQUALITY.search(version.test.name)
        return "" if meant else "it compares a value with itself"
    first, second = (resolve_variables(side, version.values) for side in (left, right))
    if first != second or named or _is_handed_out(version, left, right):
        return ""
    repeated = has_call and (_is_just_before(version, one) or _is_just_before(version, other))
    return "both sides are the same" if repeated or _is_expected(left, right) else ""


def _is_handed_out(version: TestVersion, *names: str) -> bool:
    """Go, C: something got the address of a variable, and may have changed it."""
    code = read_text(version.test.node)
    return any(re.search(rf"&{name}\b", code) for name in names if name.isidentifier())


def _is_just_before(version: TestVersion, one: Node) -> bool:
    """Nothing happens between a variable and the assertion that repeats its value."""
    names = list_names(one.parent or one)
    for node in walk(version.test.node):
        pair = read_assignment(node)
        after = _find_next(node) if pair and read_text(pair[0]) in names else None
        if after is not None and after.start_byte <= one.start_byte < after.end_byte:
            return True
    return False


def _find_next(node: Node) -> Node | None:
    """The statement after the one that a node ends."""
    current: Node | None = node
    while current is not None and current.next_named_sibling is None:
        current = current.parent
    after = current.next_named_sibling if current is not None else None
    while after is not None and after.type in COMMENTS:
        after = after.next_named_sibling
    return after


def _is_expected(*names: str) -> bool:
    plain = [normalize_name(name) for name in names if name.isidentifier()]
    return any(name.startswith(("expect", "want", "exp")) for name in plain)
