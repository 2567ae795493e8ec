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
MOST_OF_LINE = 3  # faults of one line
_WORD = compile_lazily(r"\w{2,}")
_QUOTED = compile_lazily(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`")
FEW_TESTS = 8
"""With more tests, names in the tests say little about lines; only functions are scored."""
COMMON = 0.1  # weight below which a name is ignored: ten other tests have it, too
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
        # With few tests, the names on a line say more than that of the function.
        score = self.words.get(name, 0.0) * (EDITED_FACTOR if name in self.edited else not self.few)
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
    own_words = Counter(w for test in tests for w in _list_distinctive_words(read_text(test.node)))
    wanted = {*own_words, *named}
    common = Counter(
        word
        for side in test_files
        for test in side.tests
        for word in wanted & _list_distinctive_words(read_text(test.node))
    )
    words = {
        word: (1 if word in own_words else HELPER_WEIGHT)
        / max(common[word] - own_words[word] + 1, 1)
        for word in wanted
    }
    weights = {word: weight if weight > COMMON else 0.0 for word, weight in words.items()}
    return Aim(tests[0].language.family, weights, len(tests) <= FEW_TESTS, edited)


def _list_distinctive_words(text: str) -> set[str]:
    """The words of a text. A quoted sentence counts only as a whole: it is a message."""
    sentences = {found[1:-1] for found in _QUOTED.findall(text) if " " in found}
    without_sentences = _QUOTED.sub(lambda found: "" if " " in found[0] else found[0], text)
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
        found: dict[str, list[tuple[Side, Function]]] = {}
        for side in self.files.products:
            tests = {test.qualified for test in side.tests}
            for function in side.functions:
                if function.qualified not in tests and function.body is not None:
                    for name in {function.name, PurePosixPath(side.path).stem}:
                        found.setdefault(name, []).append((side, function))
        return found

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
    found: list[Fault] = []
    depths: dict[Fault, int] = {}
    for depth, level in enumerate(code.list_reached(aim, deepest)):
        pairs = [pair for pair in level if not pair[1].is_class]
        rng.shuffle(pairs)
        for pair in pairs[:MOST_FUNCTIONS]:
            found += list_faults(pair[0], [pair[1]])
        depths |= dict.fromkeys([f for f in found if f not in depths], depth)
    rng.shuffle(found)
    scores = {fault: aim.score(code, fault) for fault in found}
    # The sorts are stable, and the faults were shuffled: equal ones stay in random order.
    found.sort(key=lambda fault: not fault.by_value)
    best = sorted(found, key=lambda fault: (-scores[fault], depths[fault]))
    # From each function in turn, so that a common helper does not dominate.
    functions: dict[tuple[str, str], list[Fault]] = {}
    for fault in best:
        functions.setdefault((fault.path, fault.function), []).append(fault)
    spread = list(take_in_turn(functions.values()))
    rows = [best, spread, found] if aim.few else [spread[::2], spread[1::2], found]
    return _spread_over_lines(list(take_in_turn(rows)))[:most]


def _spread_over_lines(faults: Iterable[Fault]) -> list[Fault]:
    """At most ``MOST_OF_LINE`` faults of each line."""
    lines: dict[tuple[str, int], list[Fault]] = {}
    for fault in dict.fromkeys(faults):
        lines.setdefault((fault.path, fault.line), []).append(fault)
    few = {fault for line in lines.values() for fault in line[:MOST_OF_LINE]}
    return [fault for fault in dict.fromkeys(faults) if fault in few]


def choose_far_faults(code: ProductCode, rng: random.Random, most: int) -> list[Fault]:
    """One fault in each of ``most`` functions, from different files first; several from each if
    there are fewer functions. Faults that likely make an assertion fail come first."""
    by_file: dict[str, list[tuple[Side, Function]]] = {}
    for side, function in code.list_all():
        by_file.setdefault(side.path, []).append((side, function))
    rows = list(by_file.values())
    for row in rows:
        rng.shuffle(row)
    rng.shuffle(rows)
    found: list[list[Fault]] = []
    for pair in take_in_turn(rows):
        if faults := list_faults(pair[0], [pair[1]]):
            rng.shuffle(faults)
            found.append(sorted(faults, key=lambda fault: not fault.by_value))
        if len(found) >= most:
            break
    return list(take_in_turn(found))[:most]


def take_in_turn(rows: Iterable[Sequence[_T]]) -> Iterator[_T]:
    """Round robin: the first of each row, then the second of each, and so on."""
    for row in zip_longest(*rows):
        yield from (each for each in row if each is not None)


def find_in_change(
    change: Changeset, code: ProductCode, faults: Iterable[Fault]
) -> dict[Fault, Fault]:
    """The faults in functions that a change leaves alone, each with the same fault in the changed
    file, where its position may differ."""
    changed = {file.raw_old_path: file for file in change.files}
    found: dict[Fault, Fault] = {}
    for fault in faults:
        file = changed.get(fault.path)
        before = code.sides[fault.path]
        moved = fault if file is None else move_fault(fault, before, read_sides(file)[1])
        if moved is not None:
            found[fault] = moved
    return found
