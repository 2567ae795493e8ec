"""Which faults are planted: near what tests exercise, or anywhere that tests name."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest
from typing import TypeVar

from gitlab_nightshift.proof.running.faults import Fault, list_faults, move_fault
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.verdict.reviewed_change import Changeset
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.nodes import list_names

_T = TypeVar("_T")
DEEPEST = 4
"""Calls from a test down to a function that it is taken to exercise."""
MOST_FUNCTIONS = 60
PER_FUNCTION = 3


@dataclass(frozen=True)
class ProductCode:
    """The functions of a tree's product code, and the names in each: by names it is told which ones
    a test may reach."""

    files: TreeFiles

    @cached_property
    def sides(self) -> Mapping[str, Side]:
        """Files by path."""
        return {side.path: side for side in self.files.products}

    @cached_property
    def _by_name(self) -> Mapping[str, list[tuple[Side, Function]]]:
        found: dict[str, list[tuple[Side, Function]]] = {}
        for side in self.files.products:
            tests = {test.qualified for test in side.tests}
            for function in side.functions:
                if function.qualified not in tests and function.body is not None:
                    found.setdefault(function.name, []).append((side, function))
        return found

    def list_reached(
        self, words: frozenset[str], language: str, deepest: int = DEEPEST
    ) -> Iterator[list[tuple[Side, Function]]]:
        """Functions by how far they are from these names: those that they name, those that these
        call, and so on."""
        seen, wanted = set[str](), set(words)
        for _ in range(deepest):
            names = [name for name in wanted if name not in seen and name in self._by_name]
            level = [
                pair
                for name in names
                for pair in self._by_name[name]
                if pair[0].language and _is_related(pair[0].language.name, language)
            ]
            if level:
                yield level
            seen |= wanted
            bodies = (function.node for _, function in level)
            wanted = {name for node in bodies for name in list_names(node)}

    def list_all(self) -> list[tuple[Side, Function]]:
        """All functions that are no classes."""
        pairs = chain.from_iterable(self._by_name.values())
        return [pair for pair in pairs if not pair[1].is_class]


_SCRIPTS = ("javascript", "typescript", "tsx")
_JVM = ("java", "kotlin", "scala")


def _is_related(one: str, other: str) -> bool:
    return one == other or any(one in kin and other in kin for kin in (_SCRIPTS, _JVM))


def choose_near_faults(
    code: ProductCode,
    words: frozenset[str],
    language: str,
    rng: random.Random,
    most: int,
    deepest: int = DEEPEST,
) -> list[Fault]:
    """Faults in functions that these names lead to, from near and far in turn, at most ``most``."""
    rows = [_choose_of_level(level, rng) for level in code.list_reached(words, language, deepest)]
    return list(_take_in_turn(rows))[:most]


def choose_far_faults(code: ProductCode, rng: random.Random, most: int) -> list[Fault]:
    """One fault each of as many functions, those of different files first."""
    by_file: dict[str, list[tuple[Side, Function]]] = {}
    for side, function in code.list_all():
        by_file.setdefault(side.path, []).append((side, function))
    rows = list(by_file.values())
    for row in rows:
        rng.shuffle(row)
    rng.shuffle(rows)
    chosen: list[Fault] = []
    for pair in _take_in_turn(rows):
        chosen += _choose_of_function(pair, rng)[:1]
        if len(chosen) >= most:
            break
    return chosen


def _choose_of_level(level: Sequence[tuple[Side, Function]], rng: random.Random) -> list[Fault]:
    pairs = [pair for pair in level if not pair[1].is_class]
    rng.shuffle(pairs)
    each = [_choose_of_function(pair, rng)[:PER_FUNCTION] for pair in pairs[:MOST_FUNCTIONS]]
    return list(_take_in_turn(each))


def _choose_of_function(pair: tuple[Side, Function], rng: random.Random) -> list[Fault]:
    """Those first that are likely to fail an assertion; on different lines."""
    faults = list_faults(pair[0], [pair[1]])
    rng.shuffle(faults)
    faults.sort(key=lambda fault: not fault.by_value)
    lines: dict[int, Fault] = {}
    for fault in faults:
        lines.setdefault(fault.line, fault)
    return list(lines.values())


def _take_in_turn(rows: Iterable[Sequence[_T]]) -> Iterator[_T]:
    for row in zip_longest(*rows):
        yield from (each for each in row if each is not None)


def keep_unchanged(
    change: Changeset, code: ProductCode, faults: Iterable[Fault]
) -> dict[Fault, Fault]:
    """Faults in functions that a change leaves as they are, each with where it is afterwards."""
    changed = {file.raw_old_path: file for file in change.files}
    found: dict[Fault, Fault] = {}
    for fault in faults:
        file = changed.get(fault.path)
        before = code.sides[fault.path]
        moved = fault if file is None else move_fault(fault, before, read_sides(file)[1])
        if moved is not None:
            found[fault] = moved
    return found
