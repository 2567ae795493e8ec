"""The tests of a change before and after, each old one matched with what it became."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gitlab_nightshift.verdict.change import Change, ChangedFile
from gitlab_nightshift.verdict.syntax.assertions import Assertion, Helpers, assertions_of
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.languages import Language
from gitlab_nightshift.verdict.syntax.nodes import names_in, tokens
from gitlab_nightshift.verdict.syntax.side import Side, sides
from gitlab_nightshift.verdict.syntax.test import Test
from gitlab_nightshift.verdict.syntax.values import calls_of_variables, values_in

if TYPE_CHECKING:
    from tree_sitter import Node

SIMILAR = 0.6
"""Share of words that a test and what it became have in common, at least."""
MOST_PAIRS = 20_000
"""Comparisons of two tests in one change; a change with more is not looked at so closely, and what
is gone from it counts as gone."""
_HELPER_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Seen:
    """A test on one side of a changed file."""

    file: ChangedFile
    side: Side
    test: Test
    helpers: Helpers = field(repr=False)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The code of the test with its marks, without white space and comments."""
        return (*self.test.marks, *tokens(self.test.node))

    @cached_property
    def bag(self) -> Counter[str]:
        """The words of the body, counted."""
        return Counter(tokens(self.test.body) if self.test.body else ())

    @cached_property
    def assertions(self) -> tuple[Assertion, ...]:
        """What the test demands."""
        return assertions_of(self.test.body or self.test.node, self.test.language, self.helpers)

    @cached_property
    def values(self) -> dict[str, str]:
        """The code that each variable stands for, where that is clear."""
        return values_in(self.test.node)

    @cached_property
    def origins(self) -> dict[str, frozenset[str]]:
        """The functions that the value of each variable comes from."""
        return calls_of_variables(self.test.node)

    @property
    def name(self) -> str:
        """The name as it may be shown, short and on one line."""
        return shown(self.test.name or self.test.qualified)


@dataclass(frozen=True)
class Tests:
    """``pairs`` live on, changed or not; ``gone`` and ``came`` have no other side."""

    pairs: tuple[tuple[Seen, Seen], ...]
    gone: tuple[Seen, ...]
    came: tuple[Seen, ...]

    @cached_property
    def changed(self) -> tuple[tuple[Seen, Seen], ...]:
        """The pairs whose code differs."""
        return tuple((old, new) for old, new in self.pairs if old.words != new.words)

    @cached_property
    def touched(self) -> tuple[Seen, ...]:
        """The new side of every test that came or changed."""
        return (*(new for _, new in self.changed), *self.came)


def shown(name: str) -> str:
    """A name from a hostile file as it may stand in a sentence."""
    clean = "".join(c if c.isprintable() else " " for c in name)
    return clean if len(clean) <= 80 else clean[:77] + "..."


_TESTS: WeakKeyDictionary[Change, Tests] = WeakKeyDictionary()


def tests_seen(change: Change) -> Tests:
    """The tests of all changed files, matched; made once for a change."""
    if change not in _TESTS:
        _TESTS[change] = _match(change)
    return _TESTS[change]


def helpers_of(all_sides: list[Side]) -> dict[str, int]:
    """Functions beside the tests that assert, with the rank of the strongest assertion."""
    functions = [each for side in all_sides for each in _asserting(side)]
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


def _asserting(side: Side) -> list[tuple[str, int, frozenset[str]]]:
    """The functions beside the tests: name, rank of the strongest assertion, names in it."""
    if side not in _ASSERTING:
        tests = {test.node.id for test in side.tests}
        _ASSERTING[side] = [
            (function.name, _strongest(function, side.language), names_in(function.body))
            for function in (side.functions if _may_help(side) else ())
            if not function.is_class and function.node.id not in tests
            if function.body is not None and side.language is not None
        ]
    return _ASSERTING[side]


def _may_help(side: Side) -> bool:
    return not side.is_product or (side.path.endswith(".rs") and bool(side.tests))


def _strongest(function: Function, language: Language) -> int:
    body = function.body
    return max((a.rank for a in assertions_of(body, language)), default=0) if body else 0


def _match(change: Change) -> Tests:
    both = [(file, *sides(file)) for file in change.files]
    old_helpers = helpers_of([old for _, old, _ in both])
    new_helpers = helpers_of([new for _, _, new in both])
    olds = [Seen(f, old, test, old_helpers) for f, old, _ in both for test in old.tests]
    news = [Seen(f, new, test, new_helpers) for f, _, new in both for test in new.tests]
    pairs: list[tuple[Seen, Seen]] = []
    for key in _KEYS:
        olds, news = _by(key, olds, news, pairs)
    olds, news = _by_body(olds, news, pairs)
    return Tests(tuple(pairs), tuple(olds), tuple(news))


_Key = Callable[[Seen], object]
_KEYS: tuple[_Key, ...] = (
    lambda seen: (id(seen.file), seen.test.qualified, seen.words),
    lambda seen: (id(seen.file), seen.test.qualified),
    lambda seen: (id(seen.file), seen.test.name),
    lambda seen: (seen.test.qualified,),
    lambda seen: (seen.test.language.name, tuple(seen.bag.items())) if len(seen.bag) > 8 else None,
    lambda seen: (seen.test.name,),
)


def _by(
    key: _Key, olds: list[Seen], news: list[Seen], pairs: list[tuple[Seen, Seen]]
) -> tuple[list[Seen], list[Seen]]:
    """Match what has the same key, in the order of the files; what is left comes back."""
    waiting: dict[object, list[Seen]] = {}
    for seen in news:
        waiting.setdefault(key(seen), []).append(seen)
    left = []
    for seen in olds:
        same = waiting.get(key(seen)) if key(seen) is not None else None
        if same:
            pairs.append((seen, same.pop(0)))
        else:
            left.append(seen)
    taken = {id(new) for _, new in pairs}
    return left, [seen for seen in news if id(seen) not in taken]


def _by_body(
    olds: list[Seen], news: list[Seen], pairs: list[tuple[Seen, Seen]]
) -> tuple[list[Seen], list[Seen]]:
    if not olds or len(olds) * len(news) > MOST_PAIRS:
        return olds, news
    crowded = len(olds) > len(news)
    scored = sorted(
        (
            (alike(old.bag, new.bag) + _shared(old, new), i, j)
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
        [seen for i, seen in enumerate(olds) if i not in taken_old],
        [seen for j, seen in enumerate(news) if j not in taken_new],
    )


def _became(old: Seen, new: Seen, crowded: bool) -> bool:
    """Similar; where there are fewer new tests with the same values, in another file with half of
    the assertions at least."""
    if alike(old.bag, new.bag) < SIMILAR or (crowded and _shared(old, new) < SIMILAR):
        return False
    keys = {a.key for a in old.assertions}
    kept = keys & {a.key for a in new.assertions}
    return old.file is new.file or 2 * len(kept) >= len(keys)


def _shared(old: Seen, new: Seen) -> float:
    """The share of the values of a test that stand in another."""
    values = [word for word in old.bag if word[:1] in "\"'`" or word[:1].isdigit()]
    said = " ".join(new.words)
    return sum(word in said for word in values) / len(values) if values else 1.0


def alike(one: Counter[str], other: Counter[str]) -> float:
    """The share of words that two pieces of code have in common, from 0 to 1."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def bag_of(node: "Node | None") -> Counter[str]:
    """The words of a piece of code, counted."""
    return Counter(tokens(node) if node else ())


def functions_after(change: Change) -> Iterator[tuple[ChangedFile, Side, Function]]:
    """Every function on the new side of the change."""
    for file in change.files:
        side = sides(file)[1]
        for function in side.functions:
            yield file, side, function
