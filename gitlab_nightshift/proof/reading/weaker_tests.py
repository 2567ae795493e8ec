"""assertion-removed and test-loosened: changed tests that demand less than before.

An assertion that is neither kept, moved nor replaced is removed. One replaced by an assertion that
no longer compares with a value is loosened. Whether other replacements are weaker is left to the
canaries.
"""

import re
from collections import Counter
from collections.abc import Iterator

from gitlab_nightshift.proof.reading.matched_tests import (
    MOST_PAIRS,
    TestVersion,
    list_literals,
    match_tests,
)
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation, take
from gitlab_nightshift.proof.syntax.assertion import RAISES, Assertion
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import format_excerpt

# Tests of many cases, by their words separated by spaces.
_REPEATS = compile_lazily(
    r"parametri|\b(for|foreach|forEach|forAll|each)\b|Source\b|\brstest|test_case|subTest|expand"
    r"|\bt \. Run|DataRow|InlineData|TestCase|dataProvider"
)
# The new version of a test, an assertion that it lost, and the one that replaces it.
_Lost = tuple[TestVersion, Assertion, Assertion | None]


def find_removed_assertions(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Assertions removed from a test that still exists."""
    for version, old, new in _find_lost_assertions(change):
        if new is None:
            detail = f"{version.name} no longer checks this: {_format_assertion(old)}"
            yield RuleViolation(version.file.path, version.test.line, detail)


def find_loosened_tests(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Values that are no longer expected, and tests that are expected to fail now."""
    for version, old, new in _find_lost_assertions(change):
        if new is not None:
            became = f"{_format_assertion(old)} became {_format_assertion(new)}"
            detail = f"{version.name} demands less: {became}"
            yield RuleViolation(version.file.path, new.line, detail)
    yield from _find_expected_failures(change)


def _find_expected_failures(change: Changeset) -> Iterator[RuleViolation]:
    """Rust: unchanged test bodies that got ``#[should_panic]``."""
    for old, new in match_tests(change).changed:
        added = [mark for mark in new.test.marks if "should_panic" in mark]
        if added and old.bag == new.bag and not any("should_panic" in m for m in old.test.marks):
            detail = f"{new.name} passes now if it fails: {format_excerpt(added[0])}"
            yield RuleViolation(new.file.path, new.test.line, detail, certain=True)


def _format_assertion(assertion: Assertion) -> str:
    """Its words with the usual spaces."""
    text = re.sub(r"\s*([.()\[\]])\s*", r"\1", " ".join(assertion.key))
    return format_excerpt(text.replace(" ,", ",").replace(" = ", "="))


def _find_lost_assertions(change: Changeset) -> Iterator[_Lost]:
    elsewhere = _count_new_assertions(change)
    for old, new in match_tests(change).changed:
        if new.test.body is not None and "pending" not in new.test.marks:
            yield from _compare(old, new, elsewhere)
    for old_helper, helper in match_tests(change).helpers:
        if old_helper is not None:
            yield from _compare(old_helper, helper, elsewhere)


def _count_new_assertions(change: Changeset) -> Counter[tuple[str, ...]]:
    """Assertions in added tests, and those added to other tests."""
    tests = match_tests(change)
    found = Counter(a.key for version in tests.added for a in version.assertions)
    for old, new in tests.changed:
        found += Counter(a.key for a in new.assertions) - Counter(a.key for a in old.assertions)
    return found


def _compare(
    old: TestVersion, new: TestVersion, elsewhere: Counter[tuple[str, ...]]
) -> Iterator[_Lost]:
    added = _list_unmatched(new, old)
    moved = elsewhere - Counter(each.key for each in added)
    lost = [each for each in _list_unmatched(old, new) if not take(moved, each.key)]
    # A new helper may check anything: that is for the canaries.
    if not lost or any(each.word == "helper" for each in added):
        return
    repeats = _REPEATS.search(" ".join(new.words)) is not None
    replaced, lost = _pair_replacements(lost, added, repeats=repeats)
    words = [word for each in added for word in each.key]
    text = " ".join([*(Counter(new.all_words) - Counter(old.all_words)), *words])
    # In a test of many cases, one occurrence of a value may serve all of them.
    text *= len(replaced) + len(lost) if repeats else 1
    used: Counter[str] = Counter()
    for each, replacement in replaced:
        kept = _has_values(text, each, used) and not each.subjects & replacement.subjects
        if each.compares and not (replacement.compares or replacement.word in RAISES or kept):
            yield new, each, replacement
    # One that demands an exception: nothing runs after that.
    stronger = any(n.word in RAISES or (n.compares and not o.compares) for o, n in replaced)
    for each in lost:
        covered = any(_covers_part(other, each) for other in added)
        if not (covered or (stronger and not each.compares) or _has_values(text, each, used)):
            yield new, each, None


def _list_unmatched(one: TestVersion, other: TestVersion) -> list[Assertion]:
    """The assertions of one version that the other lacks. What a helper throws is no assertion."""
    known = Counter(each.key for each in other.assertions)
    unmatched = [each for each in one.assertions if not take(known, each.key)]
    return [each for each in unmatched if one.test.is_run or each.word != "fail"]


def _pair_replacements(
    lost: list[Assertion], added: list[Assertion], *, repeats: bool
) -> tuple[list[tuple[Assertion, Assertion]], list[Assertion]]:
    """Lost assertions, each with an added one, if possible about the same subject; and those
    without one. In a test that ``repeats`` its code, one may replace several."""
    found = []
    free = sorted(added, key=lambda each: not each.compares)
    for same_subject in (True, False) if len(lost) * len(added) <= MOST_PAIRS else (False,):
        for each in sorted(lost, key=lambda each: not each.compares):
            pool = added if same_subject and repeats else free
            fits = (a for a in pool if not same_subject or a.subjects & each.subjects)
            if replacement := next(fits, None):
                found.append((each, replacement))
                lost.remove(each)
                if replacement in free:
                    free.remove(replacement)
    return found, lost


def _has_values(text: str, assertion: Assertion, used: Counter[str]) -> bool:
    """True if the text contains all values of an assertion, such as in a row of a table. ``used``
    counts the values of earlier assertions, which need occurrences of their own."""
    values = Counter(list_literals(assertion.key))
    used += values
    return bool(values) and all(text.count(value) >= used[value] for value in values)


def _covers_part(new: Assertion, old: Assertion) -> bool:
    """True if the new assertion compares a whole, of which the old one checks a part."""
    return new.compares and any(
        part.startswith((f"{whole}.", f"{whole}[")) or f"({whole})" in part
        for whole in new.subjects
        for part in old.subjects
        if whole[:1].isalpha()
    )
