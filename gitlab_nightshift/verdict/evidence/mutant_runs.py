"""Faults planted into the code that chosen tests name, and those tests run against each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.verdict.evidence.lab import EvidenceSubject, Lab
from gitlab_nightshift.verdict.evidence.mutants import Mutant, build_mutants
from gitlab_nightshift.verdict.evidence.selected_tests import (
    FocusedCommand,
    SelectedTests,
    Surroundings,
    build_focused_commands,
)
from gitlab_nightshift.verdict.syntax.collected_tests import Test
from gitlab_nightshift.verdict.syntax.file_side import Side, read_sides
from gitlab_nightshift.verdict.syntax.functions import Function
from gitlab_nightshift.verdict.syntax.nodes import list_names

MOST_MUTANTS = 8
MOST_FILES = 30
SPARE_S = 5.0
"""What a run with a fault in the code may take besides four times its usual time."""
_NOT_COMPILED = compile_lazily(
    r"\[build failed\]|COMPILATION ERROR|could not compile|error\[E\d+\]|compilation failed"
    r"|Compilation failed|SyntaxError|IndentationError|syntax error|error TS\d+"
)
"""What go, javac, scalac, cargo, rustc, Python and tsc say of a mistake that is no program: it
counts neither way."""


@dataclass(frozen=True)
class ChosenTests:
    """The tests of one language that a change adds or rewrites."""

    language: str
    tests: tuple[Test, ...]

    @cached_property
    def chosen(self) -> SelectedTests:
        files = tuple(dict.fromkeys(test.path for test in self.tests))
        names = tuple(dict.fromkeys(test.name for test in self.tests))
        return SelectedTests(
            files, names, tuple((test.path, test.qualified) for test in self.tests)
        )

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(name for test in self.tests for name in list_names(test.node))


@dataclass(frozen=True)
class TimedCommand:
    """A command that runs the tests alone, and the seconds that it took on the change."""

    focused: FocusedCommand
    duration_s: float


def find_timed_command(
    lab: Lab, tree: str, tests: ChosenTests, name: str
) -> tuple[TimedCommand | None, str]:
    """A command that runs these tests and passes on that tree; else why there is none."""
    around = Surroundings(lab.commands, lambda path: (lab.folder / path).exists())
    tried: list[str] = []
    for number, each in enumerate(build_focused_commands(tests.language, tests.chosen, around), 1):
        log = f"{tests.language}-{name}-{number}"
        result = lab.run(tree, each.argv, log)
        if result.ok and each.count(lab.read_output(log)):
            return TimedCommand(each, result.duration_s), ""
        tried.append(f"`{' '.join(each.argv[:4])} …` {_describe_end(result)}")
    if not tried:
        return None, f"no way to run single {tests.language} tests is known"
    return None, f"they could not be run alone ({'; '.join(tried)})"


def _describe_end(result: CommandResult) -> str:
    return result.error or ("ran no test" if result.ok else f"exit {result.exit_status}")


def is_mutant_found(
    lab: Lab, tree: str, mutant: Mutant, way: TimedCommand, log: str
) -> bool | None:
    """Whether the tests notice it; None where it does not compile, which proves nothing."""
    tree = lab.build_variant(tree, {mutant.path: mutant.data})
    result = lab.run(tree, way.focused.argv, log, compute_timeout(way))
    return None if has_not_compiled(lab, result, log) else not result.ok


def has_not_compiled(lab: Lab, result: CommandResult, log: str) -> bool:
    """True where the tests failed for code that is not well-formed."""
    return not result.ok and _NOT_COMPILED.search(lab.read_output(log)) is not None


def compute_timeout(way: TimedCommand) -> float:
    """Seconds for a run that may never end: an endless loop is noticed, too."""
    return way.duration_s * 4 + SPARE_S


def plant_mutants(subject: EvidenceSubject, tests: ChosenTests) -> list[Mutant]:
    found: list[list[Mutant]] = []
    for side, lines in _find_product_files(subject, tests):
        named = [each for each in side.functions if _is_named(each, tests)]
        found.append(build_mutants(side, named, lines, MOST_MUTANTS))
    rounds = max(map(len, found), default=0)
    spread = [row[n] for n in range(rounds) for row in found if n < len(row)]
    return spread[:MOST_MUTANTS]


def _is_named(function: Function, tests: ChosenTests) -> bool:
    return not function.is_class and function.name in tests.words


def _find_product_files(
    subject: EvidenceSubject, tests: ChosenTests
) -> Iterator[tuple[Side, frozenset[int]]]:
    """Files that the tests may be about, changed ones first, each with its changed lines."""
    changed = {file.path: file for file in subject.change.files}
    stems = {_extract_stem(path) for path in tests.chosen.files} | tests.words
    others = [
        path
        for path in (*subject.context.selected, *sorted(subject.change.paths()))
        if path not in changed
        and (path in subject.context.selected or _extract_stem(path) in stems)
    ]
    for path in list(dict.fromkeys((*changed, *others)))[:MOST_FILES]:
        side = (
            read_sides(changed[path])[1]
            if path in changed
            else Side(path, subject.change.read(path))
        )
        if side.is_product and side.language and side.language.name == tests.language:
            lines = changed[path].added_numbers if path in changed else ()
            yield side, frozenset(lines)


def _extract_stem(path: str) -> str:
    """``test_cart.py``, ``cart.test.ts``, ``CartTest.java`` and ``cart.go`` are all of cart."""
    stem = PurePosixPath(path).name.split(".")[0]
    return re.sub(r"^[Tt]est_?|_?([Tt]ests?|[Ss]pec|IT|Suite)$", "", stem)
