"""assertion-removed and test-loosened: tests that live on and demand less."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.verdict.flags.compared_assertions import (
    AssertingCode,
    WeakerAssertion,
    compare,
)
from gitlab_nightshift.verdict.flags.deleted_tests import list_tokens_with_tables
from gitlab_nightshift.verdict.flags.matched_tests import (
    TestVersion,
    match_helpers,
    match_tests,
)
from gitlab_nightshift.verdict.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.assertions import Assertion
from gitlab_nightshift.verdict.syntax.variable_values import resolve_variables

_TABLE = RuleTable(__file__)


def find_removed_assertions(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Assertions that are gone from a test that lives on."""
    for weaker in _find_weaker_assertions(change):
        if weaker.new is None:
            gone = _format_assertion(weaker.old)
            yield RuleViolation(
                weaker.subject.file.path,
                weaker.subject.line,
                f"{weaker.subject.name} does not check this any more: {gone}",
                weaker.level,
            )


def find_loosened_tests(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """Assertions that became weaker, and tests that are to fail now."""
    for weaker in _find_weaker_assertions(change):
        if weaker.new is not None:
            was, now = (
                _format_assertion(weaker.old),
                _format_assertion(weaker.new),
            )
            yield RuleViolation(
                weaker.subject.file.path,
                weaker.new.line,
                f"{weaker.subject.name} demands less: {was} became {now}",
                weaker.level,
            )
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


def _find_weaker_assertions(change: Changeset) -> Iterator[WeakerAssertion]:
    elsewhere = _count_new_assertions(change)
    for subject in _list_asserting_code(change):
        yield from compare(subject, elsewhere)


def _list_asserting_code(change: Changeset) -> Iterator[AssertingCode]:
    for old, new in match_tests(change).changed:
        if new.test.body is None or "pending" in new.test.marks:
            continue
        yield AssertingCode(
            new.file,
            new.name,
            new.test.line,
            _resolve_assertions(old),
            _resolve_assertions(new),
            _read_table_text(new),
            new,
        )
    for was, helper in match_helpers(change):
        if was is not None and was.assertions:
            demanded = (_drop_throws(was.assertions), _drop_throws(helper.assertions))
            yield AssertingCode(helper.file, helper.name, helper.test.line, *demanded)


def _resolve_assertions(version: TestVersion) -> tuple[Assertion, ...]:
    """The assertions of a test with their variables spelled out."""
    return tuple(
        replace(a, subject=resolve_variables(a.subject, version.values)) for a in version.assertions
    )


def _read_table_text(version: TestVersion) -> str:
    words = " ".join(version.words)
    return " ".join(list_tokens_with_tables(version)) if _MANY.search(words) else ""


_MANY = _TABLE.get_pattern("many")


def _drop_throws(all_of: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
    return tuple(a for a in all_of if a.word != "fail")


def _count_new_assertions(change: Changeset) -> Counter[tuple[str, ...]]:
    """Assertions of new tests, and those that other tests did not have before."""
    tests = match_tests(change)
    found: Counter[tuple[str, ...]] = Counter()
    for version in tests.came:
        found.update(a.key for a in version.assertions)
    for old, new in tests.changed:
        found += Counter(a.key for a in new.assertions) - Counter(a.key for a in old.assertions)
    return found
