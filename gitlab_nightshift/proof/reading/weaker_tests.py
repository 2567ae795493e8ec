"""assertion-removed and test-loosened: tests that live on and demand less.

What has no other place is gone; what only asks for less of a value is for the canaries, unless the
value itself is not expected any more.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from gitlab_nightshift.proof.reading.matched_tests import (
    MOST_PAIRS,
    TestVersion,
    list_literals,
    match_tests,
)
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.syntax.assertion import Assertion
from gitlab_nightshift.proof.syntax.assertion_words import RAISES
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

_REPEATS = compile_lazily(
    r"parametri|\b(for|foreach|forEach|forAll|each)\b|Source\b|\brstest|test_case|subTest|expand"
    r"|\bt \. Run|DataRow|InlineData|TestCase|dataProvider"
)
"""Tests of many cases, as their words are in a row."""
_Lost = tuple[TestVersion, Assertion, Assertion | None]
"""Where an assertion is gone, and what took its place."""


def find_removed_assertions(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Assertions that are gone from a test that lives on."""
    for version, old, new in _find_lost_assertions(change):
        if new is None:
            said = f"{version.name} does not check this any more: {_format_assertion(old)}"
            yield RuleViolation(version.file.path, version.test.line, said)


def find_loosened_tests(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Values that are not expected any more, and tests that are to fail now."""
    for version, old, new in _find_lost_assertions(change):
        if new is not None:
            became = f"{_format_assertion(old)} became {_format_assertion(new)}"
            said = f"{version.name} demands less: {became}"
            yield RuleViolation(version.file.path, new.line, said)
    yield from _find_expected_failures(change)


def _find_expected_failures(change: Changeset) -> Iterator[RuleViolation]:
    """Rust: a test that stays as it was, and is to panic now."""
    for old, new in match_tests(change).changed:
        came = [mark for mark in new.test.marks if "should_panic" in mark]
        if came and old.bag == new.bag and not any("should_panic" in m for m in old.test.marks):
            detail = f"{new.name} passes now if it fails: {format_excerpt(came[0])}"
            yield RuleViolation(new.file.path, new.test.line, detail, certain=True)


def _format_assertion(assertion: Assertion) -> str:
    """Its words as a person would space them."""
    text = re.sub(r"\s*([.()\[\]])\s*", r"\1", " ".join(assertion.key))
    return format_excerpt(text.replace(" ,", ",").replace(" = ", "="))


def _find_lost_assertions(change: Changeset) -> Iterator[_Lost]:
    elsewhere = _count_new_assertions(change)
    for old, new in match_tests(change).changed:
        if new.test.body is not None and "pending" not in new.test.marks:
            yield from _compare(old, new, elsewhere)
    for was, helper in match_tests(change).helpers:
        if was is not None:
            yield from _compare(was, helper, elsewhere)


def _count_new_assertions(change: Changeset) -> Counter[tuple[str, ...]]:
    """Assertions of new tests, and those that other tests did not have before."""
    tests = match_tests(change)
    found = Counter(a.key for version in tests.came for a in version.assertions)
    for old, new in tests.changed:
        found += Counter(a.key for a in new.assertions) - Counter(a.key for a in old.assertions)
    return found


def _compare(
    old: TestVersion, new: TestVersion, elsewhere: Counter[tuple[str, ...]]
) -> Iterator[_Lost]:
    came = _list_others(new, old)
    moved = elsewhere - Counter(each.key for each in came)
    lost = [each for each in _list_others(old, new) if not _take(moved, each)]
    if not lost or any(each.word == "helper" for each in came):
        return
    repeats = _REPEATS.search(" ".join(new.words)) is not None
    replaced, lost = _find_places(lost, came, repeats=repeats)
    text = " ".join([*(Counter(new.said) - Counter(old.said)), *_list_words(came)])
    text *= len(replaced) + len(lost) if repeats else 1
    used: Counter[str] = Counter()
    for each, place in replaced:
        moved_on = _says_values(each, text, used) and not each.subjects & place.subjects
        if each.compares and not (place.compares or place.word in RAISES or moved_on):
            yield new, each, place
    stronger = any(_demands_more(*pair) for pair in replaced)
    for each in lost:
        whole = any(_is_whole(each, other) for other in came)
        if not (whole or (stronger and not each.compares) or _says_values(each, text, used)):
            yield new, each, None


def _list_words(assertions: Sequence[Assertion]) -> Iterator[str]:
    return (word for each in assertions for word in each.key)


def _list_others(one: TestVersion, other: TestVersion) -> list[Assertion]:
    """The assertions of one side that the other has not; a helper may throw for many reasons."""
    known = Counter(each.key for each in other.assertions)
    others = [each for each in one.assertions if not _take(known, each)]
    return [each for each in others if one.test.is_run or each.word != "fail"]


def _take(counts: Counter[tuple[str, ...]], assertion: Assertion) -> bool:
    """True where one like it is there, which is counted off then."""
    there = counts[assertion.key] > 0
    counts[assertion.key] -= there
    return there


def _find_places(
    lost: list[Assertion], came: list[Assertion], *, repeats: bool
) -> tuple[list[tuple[Assertion, Assertion]], list[Assertion]]:
    """What took the place of each: one about the same thing, else any; and those without one. In a
    test that ``repeats`` its code one may have taken the place of several."""
    found = []
    free = sorted(came, key=lambda each: not each.compares)
    for near in (True, False) if len(lost) * len(came) <= MOST_PAIRS else (False,):
        for each in sorted(lost, key=lambda each: not each.compares):
            pool = came if near and repeats else free
            fits = (other for other in pool if not near or other.subjects & each.subjects)
            if place := next(fits, None):
                found.append((each, place))
                lost.remove(each)
                if place in free:
                    free.remove(place)
    return found, lost


def _says_values(assertion: Assertion, text: str, used: Counter[str]) -> bool:
    """True where what came says all values of an assertion, besides those that are ``used``: as a
    case of a table, or of a whole."""
    values = Counter(list_literals(assertion.key))
    used += values
    return bool(values) and all(text.count(value) >= used[value] for value in values)


def _demands_more(old: Assertion, new: Assertion) -> bool:
    """It compares where the other did not, or asks for an exception, which ends all."""
    return (new.compares and not old.compares) or new.word in RAISES


def _is_whole(old: Assertion, new: Assertion) -> bool:
    """One compares the whole of which the other looks at a part."""
    return new.compares and any(
        part.startswith((f"{whole}.", f"{whole}[")) or f"({whole})" in part
        for whole in new.subjects
        for part in old.subjects
        if whole[:1].isalpha()
    )
