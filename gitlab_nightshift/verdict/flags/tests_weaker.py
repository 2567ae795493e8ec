"""assertion-removed and test-loosened: tests that live on and demand less."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from gitlab_nightshift.verdict.change import Change, Context, Found
from gitlab_nightshift.verdict.flags import tests_cases, tests_doubles
from gitlab_nightshift.verdict.flags.tests_compared import Subject, Weaker, compare
from gitlab_nightshift.verdict.flags.tests_gone import tokens_with_tables
from gitlab_nightshift.verdict.flags.tests_lines import removed_lines
from gitlab_nightshift.verdict.flags.tests_seen import (
    Seen,
    helpers_of,
    shown,
    tests_seen,
)
from gitlab_nightshift.verdict.syntax.assertions import Assertion, assertions_of
from gitlab_nightshift.verdict.syntax.side import sides
from gitlab_nightshift.verdict.syntax.values import resolved


def assertion_removed(change: Change, _context: Context) -> Iterator[Found]:
    """Assertions that are gone from a test that lives on."""
    for weaker in _weaker(change):
        if weaker.new is None:
            gone = shown(" ".join(weaker.old.key))
            yield Found(
                weaker.subject.file.path,
                weaker.subject.line,
                f"{weaker.subject.name} does not check this any more: {gone}",
            )
    yield from removed_lines(change)


def test_loosened(change: Change, context: Context) -> Iterator[Found]:
    """Assertions that became weaker, fewer cases, doubles in place of the subject, retries."""
    for weaker in _weaker(change):
        if weaker.new is not None:
            was, now = shown(" ".join(weaker.old.key)), shown(" ".join(weaker.new.key))
            yield Found(
                weaker.subject.file.path,
                weaker.new.line,
                f"{weaker.subject.name} demands less: {was} became {now}",
            )
    yield from tests_cases.fewer(change)
    yield from tests_doubles.doubled(change)
    yield from tests_doubles.patient(change)
    yield from tests_doubles.regenerated(change)


def _weaker(change: Change) -> Iterator[Weaker]:
    elsewhere = _came_elsewhere(change)
    for subject in _subjects(change):
        yield from compare(subject, elsewhere)


def _subjects(change: Change) -> Iterator[Subject]:
    for old, new in tests_seen(change).changed:
        if new.test.body is None or "pending" in new.test.marks:
            continue
        yield Subject(
            new.file, new.name, new.test.line, _spelled(old), _spelled(new), _table(new), new
        )
    for file in change.files:
        before, after = sides(file)
        if (before.is_product and after.is_product) or after.language is None:
            continue
        tests = {test.node for side in (before, after) for test in side.tests}
        old_helpers, new_helpers = helpers_of([before]), helpers_of([after])
        if not old_helpers:
            continue
        later = {f.qualified: f for f in after.functions if not f.is_class and f.node not in tests}
        for function in before.functions:
            now = later.get(function.qualified)
            if (
                function.is_class
                or function.node in tests
                or not now
                or not now.body
                or not function.body
            ):
                continue
            if function.name not in old_helpers or function.body.text == now.body.text:
                continue
            yield Subject(
                file,
                shown(function.name),
                now.line,
                _without_throws(assertions_of(function.body, after.language, old_helpers)),
                _without_throws(assertions_of(now.body, after.language, new_helpers)),
            )


def _spelled(seen: Seen) -> tuple[Assertion, ...]:
    """The assertions of a test with their variables spelled out."""
    return tuple(replace(a, subject=resolved(a.subject, seen.values)) for a in seen.assertions)


def _table(seen: Seen) -> str:
    words = " ".join(seen.words)
    return " ".join(tokens_with_tables(seen)) if _MANY.search(words) else ""


_MANY = re.compile(
    r"parametri|\beach\b|Source\b|\brstest|test_case|\bfor\b|forEach|\bforAll"
    r"|\bt \. Run|subTest|expand|DataRow"
    r"|InlineData|TestCase|dataProvider|foreach"
)


def _without_throws(all_of: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
    return tuple(a for a in all_of if a.word != "fail")


def _came_elsewhere(change: Change) -> Counter[tuple[str, ...]]:
    """Assertions of new tests, and those that other tests did not have before."""
    tests = tests_seen(change)
    found: Counter[tuple[str, ...]] = Counter()
    for seen in tests.came:
        found.update(a.key for a in seen.assertions)
    for old, new in tests.changed:
        found += Counter(a.key for a in new.assertions) - Counter(a.key for a in old.assertions)
    return found
