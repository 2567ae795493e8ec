"""Chooses which faults are planted: near the code that tests exercise, or anywhere."""

import random
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import PurePosixPath
from typing import TypeVar

from gitlab_nightshift.proof.reviewed_change import Changeset
from gitlab_nightshift.proof.running.fault_kinds import list_faults
from gitlab_nightshift.proof.running.faults import Fault, move_fault
from gitlab_nightshift.proof.running.trial import TreeFiles
from gitlab_nightshift.proof.syntax.definitions import Function, Test
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.nodes import list_names, read_text
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_T = TypeVar("_T")
DEEPEST = 4  # depth of calls from a test to a function that it may exercise
MOST_FUNCTIONS = 60  # functions at one depth
MOST_PER_LINE = 3  # faults of one line
_WORD = compile_lazily(r"\w{2,}")
_QUOTED = compile_lazily(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`")
FEW_TESTS = 8
"""With more tests, names in the tests say little about lines; only functions are scored."""
LEAST_WEIGHT = 0.1  # a name with less is ignored: ten other tests have it, too
HELPER_WEIGHT = 0.5  # weight of a name that only helpers of the tests have
EDITED_FACTOR = 4  # factor for a function whose call changes
EXCEPTION_FACTOR = 0.3
"""Factor for a fault that likely ends in an exception, which does not test assertions."""


@dataclass(frozen=True)
class Aim:
    """Where faults should go: into code with the names in tests of one family of languages. Each of
    ``words`` has its weight, 1 if no other test has it. ``few``: there are so few tests that names
    also score lines. ``edited`` are the names on changed lines of tests."""

    family: str
    words: Mapping[str, float]
    few: bool
    edited: frozenset[str] = frozenset()

    def score(self, code: "ProductCode", fault: Fault) -> float:
        """A fault's relevance to the tests, by its function; with few tests, also by its line."""
        name = fault.function.rpartition(".")[2]
        score = self.words.get(name, 0.0)
        if name in self.edited:
            score *= EDITED_FACTOR
        elif self.few:
            score = 0.0  # the names on the line say more than that of the function
        if self.few:
            words = _list_distinctive_words(code.read_line(fault.path, fault.line))
            score += sum(self.words.get(word, 0.0) for word in words)
        return score if fault.by_value else score * EXCEPTION_FACTOR


def build_aim(
    tests: Sequence[Test],
    named: Iterable[str],
    test_files: Iterable[Side],
    edited: frozenset[str] = frozenset(),
) -> Aim:
    """Compute the aim of these tests. ``named`` are the names in them and in their helpers,
    ``test_files`` those of all tests, ``edited`` as in ``Aim``."""
    own = Counter(w for test in tests for w in _list_distinctive_words(read_text(test.node)))
    words = {*own, *named}
    total = Counter(
        word
        for side in test_files
        for test in side.tests
        for word in words & _list_distinctive_words(read_text(test.node))
    )
    weights: dict[str, float] = {}
    for word in words:
        others = max(total[word] - own[word], 0)
        weight = (1 if word in own else HELPER_WEIGHT) / (others + 1)
        weights[word] = weight if weight > LEAST_WEIGHT else 0.0
    return Aim(tests[0].language.family, weights, len(tests) <= FEW_TESTS, edited)


def _list_distinctive_words(text: str) -> set[str]:
    """The words of a text. A quoted sentence counts only as a whole: it is a message."""
    sentences = {quoted[1:-1] for quoted in _QUOTED.findall(text) if " " in quoted}
    without_sentences = _QUOTED.sub(lambda match: "" if " " in match[0] else match[0], text)
    return {*_WORD.findall(without_sentences), *sentences}


@dataclass(frozen=True)
class ProductCode:
    """The functions of a tree's product code, which tests reach by the names in them."""

    files: TreeFiles

    @cached_property
    def sides(self) -> Mapping[str, Side]:
        """Files by path."""
        return {side.path: side for side in self.files.products}

    @cached_property
    def _lines(self) -> Mapping[str, list[str]]:
        return {path: side.code.split("\n") for path, side in self.sides.items()}

    def read_line(self, path: str, line: int) -> str:
        """A line of a file, from 1."""
        return self._lines[path][line - 1] if line <= len(self._lines[path]) else ""

    @cached_property
    def _by_name(self) -> Mapping[str, list[tuple[Side, Function]]]:
        """Functions by their own names and by those of their files."""
        by_name: dict[str, list[tuple[Side, Function]]] = {}
        for side in self.files.products:
            tests = {test.qualified for test in side.tests}
            for function in side.functions:
                if function.qualified not in tests and function.body is not None:
                    for name in {function.name, PurePosixPath(side.path).stem}:
                        by_name.setdefault(name, []).append((side, function))
        return by_name

    def list_reached(self, aim: Aim, deepest: int) -> Iterator[list[tuple[Side, Function]]]:
        """Functions by depth: those that the aim names, then those that these name, and so on."""
        seen, wanted = set[str](), set(aim.words)
        for _ in range(deepest):
            names = [name for name in wanted if name not in seen and name in self._by_name]
            pairs = dict.fromkeys(pair for name in names for pair in self._by_name[name])
            # Languages of one family may call each other, such as Kotlin and Java.
            level = [p for p in pairs if p[0].language and p[0].language.family == aim.family]
            if level:
                yield level
            seen |= wanted
            bodies = (function.node for _, function in level)
            wanted = {name for node in bodies for name in list_names(node)}

    def list_all(self) -> list[tuple[Side, Function]]:
        """All functions, without classes."""
        pairs = dict.fromkeys(chain.from_iterable(self._by_name.values()))
        return [pair for pair in pairs if not pair[1].is_class]


def draw_seed() -> random.Random:
    """A random generator that an agent cannot predict, to choose faults with."""
    return random.Random(secrets.token_bytes(16))  # noqa: S311 - a choice, no secret


def choose_near_faults(
    code: ProductCode, aim: Aim, rng: random.Random, most: int, deepest: int = DEEPEST
) -> list[Fault]:
    """At most ``most`` faults in functions that the aim leads to: in turn the best, and any."""
    faults: list[Fault] = []
    depths: dict[Fault, int] = {}
    for depth, level in enumerate(code.list_reached(aim, deepest)):
        pairs = [pair for pair in level if not pair[1].is_class]
        rng.shuffle(pairs)
        for side, function in pairs[:MOST_FUNCTIONS]:
            faults += list_faults(side, [function])
        depths |= dict.fromkeys([f for f in faults if f not in depths], depth)
    rng.shuffle(faults)
    scores = {fault: aim.score(code, fault) for fault in faults}
    # The sorts are stable, and the faults were shuffled: equal ones stay in random order.
    faults.sort(key=lambda fault: not fault.by_value)
    best = sorted(faults, key=lambda fault: (-scores[fault], depths[fault]))
    # From each function in turn, so that a common helper does not dominate.
    by_function: dict[tuple[str, str], list[Fault]] = {}
    for fault in best:
        by_function.setdefault((fault.path, fault.function), []).append(fault)
    spread = list(take_in_turn(by_function.values()))
    rankings = [best, spread, faults] if aim.few else [spread[::2], spread[1::2], faults]
    return _spread_over_lines(list(take_in_turn(rankings)))[:most]


def _spread_over_lines(faults: Iterable[Fault]) -> list[Fault]:
    """At most ``MOST_PER_LINE`` faults of each line."""
    numbers: Counter[tuple[str, int]] = Counter()
    kept: list[Fault] = []
    for fault in dict.fromkeys(faults):
        numbers[fault.path, fault.line] += 1
        if numbers[fault.path, fault.line] <= MOST_PER_LINE:
            kept.append(fault)
    return kept


def choose_far_faults(code: ProductCode, rng: random.Random, most: int) -> list[Fault]:
    """One fault in each of ``most`` functions, from different files first; several from each if
    there are fewer functions. Faults that likely make an assertion fail come first."""
    by_path: dict[str, list[tuple[Side, Function]]] = {}
    for side, function in code.list_all():
        by_path.setdefault(side.path, []).append((side, function))
    files = list(by_path.values())
    for pairs in files:
        rng.shuffle(pairs)
    rng.shuffle(files)
    by_function: list[list[Fault]] = []
    for side, function in take_in_turn(files):
        if faults := list_faults(side, [function]):
            rng.shuffle(faults)
            by_function.append(sorted(faults, key=lambda fault: not fault.by_value))
        if len(by_function) >= most:
            break
    return list(take_in_turn(by_function))[:most]


def take_in_turn(lists: Iterable[Sequence[_T]]) -> Iterator[_T]:
    """Round robin: the first of each list, then the second of each, and so on."""
    for items in zip_longest(*lists):
        yield from (item for item in items if item is not None)


def find_in_change(
    change: Changeset, code: ProductCode, faults: Iterable[Fault]
) -> dict[Fault, Fault]:
    """The faults in functions that a change leaves alone, each with the same fault in the changed
    file, where its position may differ."""
    changed = {file.raw_old_path: file for file in change.files}
    in_change: dict[Fault, Fault] = {}
    for fault in faults:
        file = changed.get(fault.path)
        before = code.sides[fault.path]
        moved = fault if file is None else move_fault(fault, before, read_sides(file)[1])
        if moved is not None:
            in_change[fault] = moved
    return in_change
