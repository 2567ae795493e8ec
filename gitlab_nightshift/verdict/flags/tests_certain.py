"""test-cannot-fail: assertions that hold whatever the code does."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.change import Change, Context, Found
from gitlab_nightshift.verdict.flags.tests_doubles import doubles, subjects
from gitlab_nightshift.verdict.flags.tests_seen import Seen, shown, tests_seen
from gitlab_nightshift.verdict.flags.tests_unreached import not_awaited, not_reached, swallowed
from gitlab_nightshift.verdict.syntax.assertions import Assertion
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    LITERALS,
    bare,
    text,
    walk,
)
from gitlab_nightshift.verdict.syntax.values import assignment, calls_behind
from gitlab_nightshift.verdict.syntax.words import RAISES, normal

if TYPE_CHECKING:
    from tree_sitter import Node

_ABOUT_EQUALITY = re.compile(r"(?i)equal|reflexiv|hash|identity|itself|eq$|__eq__")
_ABOUT_SAMENESS = re.compile(
    r"(?i)equal|reflexiv|hash|idempot|determin|stable|same|consisten|identity"
    r"|cach|memo|repeat|singleton|pure|twice"
)


_DOUBLES = frozenset("Mock MagicMock AsyncMock create_autospec".split())


def test_cannot_fail(change: Change, _context: Context) -> Iterator[Found]:
    """Assertions that came and can never fail."""
    tests = tests_seen(change)
    before = {id(new): old for old, new in tests.changed}
    for seen in tests.touched:
        old = before.get(id(seen))
        known = {why for why, _ in _certain(old)} if old else set()
        told: set[int] = set()
        for why, at in _certain(seen):
            if why not in known and at not in told:
                told.add(at)
                yield Found(seen.file.path, at, f"{seen.name} cannot fail: {why}")


def _certain(seen: Seen) -> Iterator[tuple[str, int]]:
    for assertion in seen.assertions:
        if why := _always(assertion, seen):
            yield f"{why}: {shown(' '.join(assertion.key))}", assertion.line
    if seen.test.body is not None:
        yield from swallowed(seen, seen.test.body)
        yield from not_reached(seen, seen.test.body)
        if seen.test.language.name in ("javascript", "typescript", "tsx"):
            yield from not_awaited(seen, seen.test.body)
    yield from _echoes(seen)


def _always(assertion: Assertion, seen: Seen) -> str:
    """Why an assertion always holds; empty where it may fail."""
    parts = [bare(part) for part in assertion.parts]
    if assertion.word in RAISES or assertion.word in ("fail", "helper", "verify", "succeeds"):
        return ""
    if assertion.word == "always":
        return "it holds for every value"
    if not parts:
        return ""
    return _by_its_parts(assertion, parts) or (
        _same(parts[0], parts[1], seen)
        if len(parts) > 1 and not assertion.negated and _is_comparing(assertion)
        else ""
    )


def _by_its_parts(assertion: Assertion, parts: "list[Node]") -> str:
    is_truth = assertion.word == "true"
    if is_truth and parts[0].type == "tuple":
        return "a tuple is always true"
    if all(map(_is_constant, parts[:2])) and (len(parts) > 1 or is_truth):
        return "it compares constants"
    if is_truth and _is_constant(parts[0]) and not assertion.negated:
        return "it checks a constant"
    if is_truth and parts[0].type in _ALWAYS_TRUE:
        return "its condition is always true"
    return "a size is never less than zero" if _is_trivial_bound(assertion) else ""


_ALWAYS_TRUE = frozenset(
    "assignment lambda list_comprehension generator_expression arrow_function".split()
)
_COMPARING = frozenset(
    "be eq same is eql sameas sameinstance contains elementsmatch countequal containsexactly"
    " statuscode almostequal closeto identical in below above exactly matcharray isequalto equals"
    " matchobject containexactly".split()
)


def _is_comparing(assertion: Assertion) -> bool:
    return "equal" in assertion.word or assertion.word in _COMPARING


def _is_constant(node: "Node") -> bool:
    """A literal, or a list of literals."""
    return node.type in LITERALS and not any(
        each.type in ("interpolation", "template_substitution") for each in node.children
    )


def _is_trivial_bound(assertion: Assertion) -> bool:
    said = "".join(assertion.key)
    sized = re.search(r"(len\(|\.length|\.size|\.count|Count\b|\.len\(|\.size\(\)|length)", said)
    if not sized:
        return False
    return bool(
        re.search(r"(>=(0|\b0\b)\D*$|>-1\D*$|>=0[,)\"]|toBeGreaterThanOrEqual\(0\)|toBeGreaterThan\(-1\)"
                  r"|isGreaterThanOrEqualTo\(0\)|isNotNegative|GreaterOrEqual\(.*,0\)|GreaterEqual\(.*,0\)"
                  r"|be>=0|0<=len)", said)
    )  # fmt: skip


def _same(one: "Node", other: "Node", seen: Seen) -> str:
    """Both sides are the same code, directly or through a variable that is named as expected."""
    left, right = text(one), text(other)
    named = _ABOUT_SAMENESS.search(seen.test.name)
    has_call = any(node.type in CALLS for node in walk(one))
    if left == right:
        meant = named if has_call else _ABOUT_EQUALITY.search(seen.test.name)
        return "" if meant else "it compares a value with itself"
    values = seen.values
    first, second = values.get(left, left), values.get(right, right)
    if first != second or named:
        return ""
    if (
        _is_expected(left)
        or _is_expected(right)
        or (has_call and _is_just_before(seen, left, right))
    ):
        return "both sides are the same"
    return ""


def _is_just_before(seen: Seen, left: str, right: str) -> bool:
    """Nothing happens between a variable and the assertion that repeats its value."""
    for node in walk(seen.test.node):
        pair = assignment(node)
        if pair and text(pair[0]) in (left, right):
            outer = node.parent if node.parent and node.parent.child_count == 1 else node
            after = outer.next_named_sibling or (
                outer.parent.next_named_sibling if outer.parent else None
            )
            said = text(after)
            return after is not None and left in said and right in said
    return False


def _is_expected(name: str) -> bool:
    return normal(name).startswith(("expect", "want", "exp")) and name.isidentifier()


def _echoes(seen: Seen) -> Iterator[tuple[str, int]]:
    """Assertions on what a double of the test returns."""
    looked_at = subjects(seen)
    for name, at in doubles(seen):
        if name in looked_at and name not in ("get", "return_value"):
            yield f"it checks what its own double of {name} returns", at
    stubbed = re.findall(r"(\w+)\.return_value\s*=", text(seen.test.node))
    for assertion in seen.assertions:
        behind = calls_behind(assertion.parts[0], seen.origins) if assertion.parts else frozenset()
        for name in stubbed:
            if behind - _DOUBLES == {name}:
                yield f"it checks what its own double {name} returns", assertion.line
