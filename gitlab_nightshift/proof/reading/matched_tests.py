"""Matches the tests before a change with those after it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tree_sitter import Node

from gitlab_nightshift.proof.reviewed_change import Changeset
from gitlab_nightshift.proof.syntax.assertion import Assertion
from gitlab_nightshift.proof.syntax.assertions import list_assertions
from gitlab_nightshift.proof.syntax.definitions import (
    Function,
    Test,
    build_test,
    find_iterated_lists,
)
from gitlab_nightshift.proof.syntax.file_side import Side, cache_weakly, read_sides
from gitlab_nightshift.proof.syntax.languages import has_inline_tests
from gitlab_nightshift.proof.syntax.nodes import list_names, list_tokens, read_variable_values
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.text.printable_text import format_excerpt

SIMILAR = 0.6  # least share of words that two versions of a test have in common
MOST_PAIRS = 20_000
"""Pairs of tests that are compared in one change; with more, similar tests are not matched, and
count as removed and added."""
_HELPER_ROUNDS = 3  # depth of helpers that call helpers that assert
_LONGEST_MARK = 4000  # characters


@dataclass(frozen=True, eq=False)
class TestVersion:
    """A test on one side of a changed file. ``helpers`` are names of functions that assert."""

    file: ChangedFile
    side: Side
    test: Test
    helpers: frozenset[str] = field(repr=False)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The marks of the test and its tokens."""
        return (*self.test.marks, *list_tokens(self.test.node))

    @cached_property
    def body_words(self) -> Counter[str]:
        """The tokens of the body, counted."""
        return count_words(self.test.body)

    @cached_property
    def assertions(self) -> tuple[Assertion, ...]:
        """The assertions in the test."""
        return list_assertions(self.test.body or self.test.node, self.test.language, self.helpers)

    @cached_property
    def values(self) -> dict[str, str]:
        """The code that each variable is set to, of those that are set once."""
        return read_variable_values(self.test.node)

    @cached_property
    def all_words(self) -> tuple[str, ...]:
        """The words of the test, of the lists that it is repeated for, and of the tables and
        functions of its file that it names."""
        words = list(self.words)
        for mark in self.test.marks:
            words += re.findall(r"\"[^\"]*\"|'[^']*'|\w+", mark[:_LONGEST_MARK])
        for node in find_iterated_lists(self.test):
            words += list_tokens(node)
        definitions = self.side.definitions
        for name in {word.strip("\"'") for word in words} & definitions.keys():
            for node in definitions[name]:
                words += list_tokens(node) if node != self.test.node else ()
        return tuple(words)

    @property
    def name(self) -> str:
        """The name for messages, short and on one line."""
        return format_excerpt(self.test.name or self.test.qualified)


@dataclass(frozen=True)
class MatchedTests:
    """The tests of a change. ``pairs`` are tests before and after it, changed or not. ``helpers``
    are functions beside the tests that assert, read as if they were tests: the old version in the
    same file, or None, and the one that the change adds or rewrites."""

    pairs: tuple[tuple[TestVersion, TestVersion], ...]
    removed: tuple[TestVersion, ...]
    added: tuple[TestVersion, ...]
    helpers: tuple[tuple[TestVersion | None, TestVersion], ...]

    @cached_property
    def changed(self) -> tuple[tuple[TestVersion, TestVersion], ...]:
        """The pairs whose code differs."""
        return tuple((old, new) for old, new in self.pairs if old.words != new.words)

    @cached_property
    def touched(self) -> tuple[TestVersion, ...]:
        """The new side of every added or changed test."""
        return (*(new for _, new in self.changed), *self.added)


@cache_weakly
def match_tests(change: Changeset) -> MatchedTests:
    """The tests of all changed files."""
    sides = [(file, *read_sides(file)) for file in change.files]
    old_names = _find_asserting_names([old for _, old, _ in sides])
    new_names = _find_asserting_names([new for _, _, new in sides])
    olds = [TestVersion(f, old, test, old_names) for f, old, _ in sides for test in old.tests]
    news = [TestVersion(f, new, test, new_names) for f, _, new in sides for test in new.tests]
    pairs: list[tuple[TestVersion, TestVersion]] = []
    # From the most certain key to the least; each sees only tests that are not yet paired.
    for key in _KEYS:
        olds, news = _pair_by_key(key, olds, news, pairs)
    olds, news = _pair_by_body(olds, news, pairs)
    helpers: list[tuple[TestVersion | None, TestVersion]] = []
    for file, old, new in sides:
        old_helpers = _list_helpers(file, old, old_names)
        helpers += _pair_helpers(old_helpers, _list_helpers(file, new, new_names))
    return MatchedTests(tuple(pairs), tuple(olds), tuple(news), tuple(helpers))


def _pair_helpers(
    olds: Iterable[TestVersion], news: Iterable[TestVersion]
) -> Iterator[tuple[TestVersion | None, TestVersion]]:
    by_name = {each.test.qualified: each for each in olds}
    old_words = {each.words for each in by_name.values()}  # overloads share a name: compare words
    for new in news:
        old = by_name.get(new.test.qualified)
        if new.words not in old_words and (new.assertions or (old and old.assertions)):
            yield old, new


def _list_helpers(file: ChangedFile, side: Side, helpers: frozenset[str]) -> Iterator[TestVersion]:
    for each in _list_helper_functions(side):
        if side.language is not None and each.body is not None:
            test = build_test(each, side.language, side.path, is_run=False)
            yield TestVersion(file, side, test, helpers)


def _find_asserting_names(sides: list[Side]) -> frozenset[str]:
    """The names of functions beside the tests that assert, directly or by calling others."""
    functions = [
        (each.name, bool(list_assertions(each.body, side.language)), list_names(each.body))
        for side in sides
        for each in _list_helper_functions(side)
        if each.body is not None and side.language is not None
    ]
    asserting = frozenset(name for name, asserts, _ in functions if asserts)
    for _ in range(_HELPER_ROUNDS):
        asserting |= {name for name, _, names in functions if names & asserting}
    return asserting


def _list_helper_functions(side: Side) -> Iterator[Function]:
    """Functions beside the tests; in a product file, those in the module of its tests (Rust)."""
    if side.is_product and not (has_inline_tests(side.path) and side.tests):
        return
    tests = {test.node.id for test in side.tests}
    modules = {test.qualified.rpartition(".")[0] for test in side.tests}
    for each in side.functions:
        in_module = any(each.qualified.startswith(f"{m}." if m else each.name) for m in modules)
        if not each.is_class and each.node.id not in tests and (in_module or not side.is_product):
            yield each


_Key = Callable[[TestVersion], object]
# Keys by which a test is recognized on the other side; None matches nothing.
_KEYS: tuple[_Key, ...] = (
    # In the same file: unchanged, changed, moved to another group.
    lambda version: (id(version.file), version.test.qualified, version.words),
    lambda version: (id(version.file), version.test.qualified),
    lambda version: (id(version.file), version.test.name),
    # Moved to another file.
    lambda version: (version.test.qualified,),
    # Renamed with the same body, unless that is so short that several tests may have it.
    lambda version: (
        (version.test.language.name, tuple(version.body_words.items()))
        if len(version.body_words) > 8
        else None
    ),
    lambda version: (version.test.name,),
)


def _pair_by_key(
    key: _Key,
    olds: list[TestVersion],
    news: list[TestVersion],
    pairs: list[tuple[TestVersion, TestVersion]],
) -> tuple[list[TestVersion], list[TestVersion]]:
    """Add pairs of tests with the same key, in source order; returns the other tests."""
    by_key: dict[object, list[TestVersion]] = {}
    for version in news:
        by_key.setdefault(key(version), []).append(version)
    old_left = []
    for version in olds:
        if key(version) is not None and (same := by_key.get(key(version))):
            pairs.append((version, same.pop(0)))
        else:
            old_left.append(version)
    new_left = {id(version) for same in by_key.values() for version in same}
    return old_left, [version for version in news if id(version) in new_left]


def _pair_by_body(
    olds: list[TestVersion], news: list[TestVersion], pairs: list[tuple[TestVersion, TestVersion]]
) -> tuple[list[TestVersion], list[TestVersion]]:
    """Add pairs of tests with similar bodies, the most similar first; returns the other tests."""
    if not olds or len(olds) * len(news) > MOST_PAIRS:
        return olds, news
    scored = (
        (_score_pair(old, new), i, j)
        for i, old in enumerate(olds)
        for j, new in enumerate(news)
        if _is_new_version(old, new)
    )
    old_left, new_left = dict(enumerate(olds)), dict(enumerate(news))
    for _, i, j in sorted(scored, reverse=True):
        if i in old_left and j in new_left:
            pairs.append((old_left.pop(i), new_left.pop(j)))
    return [*old_left.values()], [*new_left.values()]


def _is_new_version(old: TestVersion, new: TestVersion) -> bool:
    """True if the bodies are similar and, in another file, half of the assertions are the same."""
    if compute_similarity(old.body_words, new.body_words) < SIMILAR:
        return False
    keys = {a.key for a in old.assertions}
    kept = keys & {a.key for a in new.assertions}
    return old.file is new.file or 2 * len(kept) >= len(keys)


def _score_pair(old: TestVersion, new: TestVersion) -> float:
    """The similarity of the bodies, plus the share of the old test's literals that the new one has,
    too; that is 1.0 if it has none."""
    similarity = compute_similarity(old.body_words, new.body_words)
    values = [word for word in old.body_words if word[:1] in "\"'`" or word[:1].isdigit()]
    text = " ".join(new.words)
    return similarity + (sum(value in text for value in values) / len(values) if values else 1.0)


def compute_similarity(one: Counter[str], other: Counter[str]) -> float:
    """The share of words that two pieces of code have in common (Dice's coefficient), 0 to 1."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def count_words(node: Node | None) -> Counter[str]:
    """The tokens of a piece of code, counted."""
    return Counter(list_tokens(node) if node else ())


def list_literals(words: Iterable[str]) -> list[str]:
    """The strings, without quotes, and numbers among words."""
    return [
        word.strip("\"'`") or '""'
        for word in words
        if word[:1] in "\"'`" or re.fullmatch(r"-?\d[\d_.]*[a-zA-Z]*", word)
    ]
