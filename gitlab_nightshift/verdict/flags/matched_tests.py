"""The tests of a change before and after, each old one matched with what it became."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

from tree_sitter import Node

from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.verdict.reviewed_change import Changeset
from gitlab_nightshift.verdict.syntax.assertions import Assertion, Helpers, list_assertions
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.languages import Language
from gitlab_nightshift.verdict.syntax.nodes import list_names, list_tokens
from gitlab_nightshift.verdict.syntax.single_test import Test
from gitlab_nightshift.verdict.syntax.variable_values import (
    read_variable_calls,
    read_variable_values,
)

SIMILAR = 0.6
"""Share of words that a test and what it became have in common, at least."""
MOST_PAIRS = 20_000
"""Comparisons of two tests in one change; a change with more is not looked at so closely, and what
is gone from it counts as gone."""
_HELPER_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class TestVersion:
    """A test on one side of a changed file."""

    file: ChangedFile
    side: Side
    test: Test
    helpers: Helpers = field(repr=False)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The code of the test with its marks, without white space and comments."""
        return (*self.test.marks, *list_tokens(self.test.node))

    @cached_property
    def bag(self) -> Counter[str]:
        """The words of the body, counted."""
        return Counter(list_tokens(self.test.body) if self.test.body else ())

    @cached_property
    def assertions(self) -> tuple[Assertion, ...]:
        """What the test demands."""
        return list_assertions(self.test.body or self.test.node, self.test.language, self.helpers)

    @cached_property
    def values(self) -> dict[str, str]:
        """The code that each variable stands for, where that is clear."""
        return read_variable_values(self.test.node)

    @cached_property
    def origins(self) -> dict[str, frozenset[str]]:
        """The functions that the value of each variable comes from."""
        return read_variable_calls(self.test.node)

    @property
    def name(self) -> str:
        """The name as it may be shown, short and on one line."""
        return format_excerpt(self.test.name or self.test.qualified)


@dataclass(frozen=True)
class MatchedTests:
    """``pairs`` live on, changed or not; ``gone`` and ``came`` have no other side."""

    pairs: tuple[tuple[TestVersion, TestVersion], ...]
    gone: tuple[TestVersion, ...]
    came: tuple[TestVersion, ...]

    @cached_property
    def changed(self) -> tuple[tuple[TestVersion, TestVersion], ...]:
        """The pairs whose code differs."""
        return tuple((old, new) for old, new in self.pairs if old.words != new.words)

    @cached_property
    def touched(self) -> tuple[TestVersion, ...]:
        """The new side of every test that came or changed."""
        return (*(new for _, new in self.changed), *self.came)


_TESTS: WeakKeyDictionary[Changeset, MatchedTests] = WeakKeyDictionary()


def match_tests(change: Changeset) -> MatchedTests:
    """The tests of all changed files, matched; made once for a change."""
    if change not in _TESTS:
        _TESTS[change] = _match(change)
    return _TESTS[change]


_Pair = tuple["TestVersion | None", TestVersion]
_HELPERS: WeakKeyDictionary[Changeset, tuple[_Pair, ...]] = WeakKeyDictionary()


def match_helpers(change: Changeset) -> tuple[_Pair, ...]:
    """Functions beside the tests that assert and that came or changed, as if they were tests, each
    with what it was in the same file."""
    if change not in _HELPERS:
        _HELPERS[change] = tuple(_list_changed_helpers(change))
    return _HELPERS[change]


def _list_changed_helpers(change: Changeset) -> Iterator[_Pair]:
    both = [(file, *read_sides(file)) for file in change.files]
    asserted = find_helpers([old for _, old, _ in both])
    asserting = find_helpers([new for _, _, new in both])
    for file, before, after in both:
        was = {each.test.qualified: each for each in _list_helpers(file, before, asserted)}
        same = {each.words for each in was.values()}  # overloads have the same name
        for new in _list_helpers(file, after, asserting):
            old = was.get(new.test.qualified)
            if new.words not in same and (new.assertions or (old and old.assertions)):
                yield old, new


def _list_helpers(file: ChangedFile, side: Side, helpers: Helpers) -> Iterator[TestVersion]:
    tests, language = {test.node.id for test in side.tests}, side.language
    if language is None or not _may_help(side):
        return
    homes = {test.qualified.rpartition(".")[0] for test in side.tests}
    for each in side.functions:
        beside = not side.is_product or _stands_in(each, homes)
        if not each.is_class and each.body is not None and each.node.id not in tests and beside:
            place = (each.name, each.qualified, each.line, each.end, each.marks, (), side.path)
            yield TestVersion(file, side, Test(*place, language, each.node, each.body), helpers)


def find_helpers(all_sides: list[Side]) -> dict[str, int]:
    """Functions beside the tests that assert, with the rank of the strongest assertion."""
    functions = [each for side in all_sides for each in _list_helper_candidates(side)]
    found = {name: rank for name, rank, _ in functions if rank}
    for _ in range(_HELPER_ROUNDS):
        more = {
            name: max(found[called] for called in calls & found.keys())
            for name, _, calls in functions
            if name not in found and calls & found.keys()
        }
        if not more:
            break
        found |= more
    return found


_ASSERTING: WeakKeyDictionary[Side, list[tuple[str, int, frozenset[str]]]] = WeakKeyDictionary()


def _list_helper_candidates(side: Side) -> list[tuple[str, int, frozenset[str]]]:
    """The functions beside the tests: name, rank of the strongest assertion, names in it."""
    if side not in _ASSERTING:
        tests = {test.node.id for test in side.tests}
        homes = {test.qualified.rpartition(".")[0] for test in side.tests}
        _ASSERTING[side] = [
            (function.name, _rank_function(function, side.language), list_names(function.body))
            for function in (side.functions if _may_help(side) else ())
            if not function.is_class and function.node.id not in tests
            if function.body is not None and side.language is not None
            if not side.is_product or _stands_in(function, homes)
        ]
    return _ASSERTING[side]


def _stands_in(function: Function, homes: set[str]) -> bool:
    """Rust: beside the tests of a file of product code, whose own functions may assert, too."""
    return any(
        function.qualified.startswith(f"{home}." if home else function.name) for home in homes
    )


def _may_help(side: Side) -> bool:
    return not side.is_product or (side.path.endswith(".rs") and bool(side.tests))


def _rank_function(function: Function, language: Language) -> int:
    body = function.body
    return max((a.rank for a in list_assertions(body, language)), default=0) if body else 0


def _match(change: Changeset) -> MatchedTests:
    both = [(file, *read_sides(file)) for file in change.files]
    old_helpers = find_helpers([old for _, old, _ in both])
    new_helpers = find_helpers([new for _, _, new in both])
    olds = [TestVersion(f, old, test, old_helpers) for f, old, _ in both for test in old.tests]
    news = [TestVersion(f, new, test, new_helpers) for f, _, new in both for test in new.tests]
    pairs: list[tuple[TestVersion, TestVersion]] = []
    for key in _KEYS:
        olds, news = _pair_by_key(key, olds, news, pairs)
    olds, news = _pair_by_body(olds, news, pairs)
    return MatchedTests(tuple(pairs), tuple(olds), tuple(news))


_Key = Callable[[TestVersion], object]
_KEYS: tuple[_Key, ...] = (
    lambda version: (id(version.file), version.test.qualified, version.words),
    lambda version: (id(version.file), version.test.qualified),
    lambda version: (id(version.file), version.test.name),
    lambda version: (version.test.qualified,),
    lambda version: (
        (version.test.language.name, tuple(version.bag.items())) if len(version.bag) > 8 else None
    ),
    lambda version: (version.test.name,),
)


def _pair_by_key(
    key: _Key,
    olds: list[TestVersion],
    news: list[TestVersion],
    pairs: list[tuple[TestVersion, TestVersion]],
) -> tuple[list[TestVersion], list[TestVersion]]:
    """Match what has the same key, in the order of the files; what is left comes back."""
    waiting: dict[object, list[TestVersion]] = {}
    for version in news:
        waiting.setdefault(key(version), []).append(version)
    left = []
    for version in olds:
        same = waiting.get(key(version)) if key(version) is not None else None
        if same:
            pairs.append((version, same.pop(0)))
        else:
            left.append(version)
    taken = {id(new) for _, new in pairs}
    return left, [version for version in news if id(version) not in taken]


def _pair_by_body(
    olds: list[TestVersion], news: list[TestVersion], pairs: list[tuple[TestVersion, TestVersion]]
) -> tuple[list[TestVersion], list[TestVersion]]:
    if not olds or len(olds) * len(news) > MOST_PAIRS:
        return olds, news
    crowded = len(olds) > len(news)
    scored = sorted(
        (
            (compute_similarity(old.bag, new.bag) + _compute_value_overlap(old, new), i, j)
            for i, old in enumerate(olds)
            for j, new in enumerate(news)
            if _became(old, new, crowded)
        ),
        reverse=True,
    )
    taken_old: set[int] = set()
    taken_new: set[int] = set()
    for _, i, j in scored:
        if i not in taken_old and j not in taken_new:
            pairs.append((olds[i], news[j]))
            taken_old.add(i)
            taken_new.add(j)
    return (
        [version for i, version in enumerate(olds) if i not in taken_old],
        [version for j, version in enumerate(news) if j not in taken_new],
    )


def _became(old: TestVersion, new: TestVersion, crowded: bool) -> bool:
    """Similar; where there are fewer new tests with the same values, in another file with half of
    the assertions at least."""
    if compute_similarity(old.bag, new.bag) < SIMILAR or (
        crowded and _compute_value_overlap(old, new) < SIMILAR
    ):
        return False
    keys = {a.key for a in old.assertions}
    kept = keys & {a.key for a in new.assertions}
    return old.file is new.file or 2 * len(kept) >= len(keys)


def _compute_value_overlap(old: TestVersion, new: TestVersion) -> float:
    """The share of the values of a test that another test has too."""
    values = [word for word in old.bag if word[:1] in "\"'`" or word[:1].isdigit()]
    said = " ".join(new.words)
    return sum(word in said for word in values) / len(values) if values else 1.0


def compute_similarity(one: Counter[str], other: Counter[str]) -> float:
    """The share of words that two pieces of code have in common, from 0 to 1."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def count_words(node: Node | None) -> Counter[str]:
    """The words of a piece of code, counted."""
    return Counter(list_tokens(node) if node else ())
