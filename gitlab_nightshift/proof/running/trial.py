"""Tries out a change: reads the files of its trees, and runs commands and tests on them, with
planted faults or without."""

import dataclasses
import secrets
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gitlab_nightshift.proof.evidence.evidence_records import EvidenceSubject
from gitlab_nightshift.proof.evidence.selected_tests import FocusedCommand
from gitlab_nightshift.proof.proof_commands import CommandRun, Runner, run_once
from gitlab_nightshift.proof.reading.touched_files import is_vendored
from gitlab_nightshift.proof.reports.report_readers import CaseOutcome
from gitlab_nightshift.proof.reports.report_request import ReadText
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.switches import (
    build_reached_name,
    find_refused_faults,
    turn_on,
    write_faulty_files,
    write_switched_files,
)
from gitlab_nightshift.proof.syntax.definitions import Test
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.proof.syntax.languages import (
    find_language,
    is_beside_tests,
    is_product,
    is_test_file,
)
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.git_formats import SUBMODULE
from gitlab_nightshift.repository.packed_listing import TreeListing
from gitlab_nightshift.repository.private_repository import Repository, read_blobs
from gitlab_nightshift.repository.tree_listing import list_tree
from gitlab_nightshift.repository.tree_objects import write_tree_with_files
from gitlab_nightshift.system.openat import RefusedFileError, read_regular

LEAST_S = 600.0  # seconds that the proof may take, however quick the commands are
LARGEST_FILE = 300_000  # bytes; larger files are data or generated
MOST_BYTES = 8_000_000  # bytes of all files that are read for one purpose


@dataclass(frozen=True)
class TreeFiles:
    """The files of a tree or commit in supported languages. Paths are raw."""

    repository: Repository
    tree: str

    @cached_property
    def _listing(self) -> TreeListing:
        return list_tree(self.repository, self.tree)

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        """The bytes of the files that were read so far, by path."""
        return {}

    @cached_property
    def products(self) -> tuple[Side, ...]:
        """The project's own code: no tests, nothing beside them, and no third-party code."""
        paths = (p for p in self._listing if find_language(p) and is_product(p))
        return self._read(path for path in paths if not is_vendored(path))

    @cached_property
    def tests(self) -> tuple[Side, ...]:
        """Files that a test runner collects, and code beside them."""
        return self._read(
            p for p in self._listing if find_language(p) and (is_test_file(p) or is_beside_tests(p))
        )

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None if it does not exist."""
        if path not in self._contents and path in self._listing:
            self._read_all([path])
        return self._contents.get(path)

    def list_paths(self) -> tuple[str, ...]:
        """All paths."""
        return tuple(path for path, mode, _ in self._listing.read_sizes() if mode != SUBMODULE)

    def _read(self, paths: Iterable[str]) -> tuple[Side, ...]:
        """The files in supported languages, up to ``MOST_BYTES`` together."""
        chosen, size = [], 0
        for path in paths:
            file = self._listing[path]
            fits = file.size <= LARGEST_FILE and size + file.size <= MOST_BYTES
            if fits and file.mode != SUBMODULE:
                chosen.append(path)
                size += file.size
        self._read_all(chosen)
        return tuple(Side(path, self._contents.get(path)) for path in chosen)

    def _read_all(self, paths: Iterable[str]) -> None:
        """Read the files that were not read before, by one request."""
        files = {path: self._listing[path] for path in paths if path not in self._contents}
        blobs = {path: file.blob for path, file in files.items() if file.mode != SUBMODULE}
        contents = read_blobs(self.repository, blobs.values()) if blobs else {}
        self._contents.update((p, contents[blob]) for p, blob in blobs.items() if blob in contents)


@dataclass(frozen=True)
class TrialCheckout:
    """A checkout in which a change is tried out, and the ``runner`` of programs in it.
    ``commands`` test the whole project, and passed; ``name`` is a prefix for logs; the proof has to
    end by ``deadline``, a time of ``time.monotonic``."""

    checkout: Checkout
    runner: Runner
    commands: tuple[str, ...]
    name: str
    deadline: float
    _files: dict[str, TreeFiles] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The top folder of the checkout."""
        return self.checkout.path

    def compute_left_s(self) -> float:
        """Seconds left until the deadline."""
        return self.deadline - time.monotonic()

    def open_files(self, tree: str) -> TreeFiles:
        """The files of a tree, which are read and parsed only once."""
        return self._files.setdefault(tree, TreeFiles(self.checkout.repository, tree))

    def build_variant(self, tree: str, files: Mapping[str, bytes | None]) -> str:
        """Build a tree with files (raw paths) replaced or removed (None), and return its id."""
        return write_tree_with_files(self.checkout.repository, tree, files)

    def build_faulty(self, tree: str, faults: Sequence[Fault]) -> str:
        """Build a tree with these faults permanently on, and return its id."""
        return self.build_variant(tree, write_faulty_files(faults, self.open_files(tree).read))

    def check_out(self, tree: str) -> None:
        """Restore the checkout to this tree."""
        self.checkout.apply_tree(tree)

    def run(self, tree: str, argv: tuple[str, ...], log: str) -> CommandResult:
        """Check out this tree, and run a command in it."""
        self.check_out(tree)
        at_most_s = max(self.compute_left_s(), 1.0)
        return self.runner.run(argv, f"{self.name}-{log}", at_most_s=at_most_s)


def compute_deadline(wanted_s: float | None, usual_s: float, left_s: float | None) -> float:
    """The end of the proof, by ``time.monotonic``. It may take ``wanted_s`` seconds; without these,
    three times the ``usual_s`` of the commands, or ten minutes if that is more. But it may take at
    most half of the run's remaining ``left_s``, as the beads Verify and MR follow."""
    time_s = wanted_s or max(LEAST_S, usual_s * 3)
    return time.monotonic() + (time_s if left_s is None else min(time_s, left_s / 2))


@dataclass(frozen=True)
class SuiteOutcome:
    """The outcome of commands that test a project. ``red``: the exit status is not 0; ``ended`` is
    False if this program ended the run. ``failed`` and ``ran`` are the reported names of tests;
    some runners name only those that failed. ``unknown`` is why there is no report."""

    red: bool
    ended: bool = True
    failed: frozenset[str] = frozenset()
    ran: frozenset[str] = frozenset()
    unknown: str = ""
    duration_s: float = 0.0

    @property
    def noticed(self) -> bool:
        """True if tests noticed a fault: the exit status is red, and a report has failed tests or
        is missing."""
        return self.ended and self.red and bool(self.failed or self.unknown)

    @property
    def disagrees(self) -> bool:
        """True if tests failed, and the exit status is 0 nevertheless."""
        return self.ended and bool(self.failed) and not self.red


def read_outcome(runs: Sequence[CommandRun]) -> SuiteOutcome:
    """The outcome of commands that ran one after the other."""
    counts = [item for run in runs for item in run.collection.counts.items()]
    return SuiteOutcome(
        red=any(not run.result.ok for run in runs),
        ended=not any(run.result.error for run in runs),
        failed=frozenset(name for name, times in counts if times[CaseOutcome.FAILED]),
        ran=frozenset(name for run in runs for name in run.collection.list_run()),
        unknown="; ".join(run.collection.unknown for run in runs if run.collection.unknown),
        duration_s=sum(run.result.duration_s for run in runs),
    )


def is_reported_as(name: str, test: Test) -> bool:
    """True if this test may have been reported by a name, such as
    ``tests/test_a.py::TestA::test_b``, ``pkg::TestA/row``, ``a.test.js::suite title`` or
    ``com.shop.CartTest::total``."""
    last = name.rpartition("::")[2]
    return (
        last == test.name
        or last.startswith(f"{test.name}/")
        or last.endswith((f" {test.name}", f".{test.name}", f"/{test.name}"))
    )


def is_any_reported(names: Iterable[str], tests: Iterable[Test]) -> bool:
    """True if one of the tests may have been reported by one of the names."""
    candidates = list(tests)
    return any(is_reported_as(name, test) for name in names for test in candidates)


MOST_BUILDS = 4
"""Attempts to build a tree with faults: after each, those that the compiler refused are dropped."""
LONGEST_OUTPUT = 400_000  # bytes at the end of an output, in which a compiler names faults
EXTRA_S = 5.0  # seconds that a run with faults may take beyond three times the usual duration


@dataclass(frozen=True)
class TestRun:
    """Commands that ran tests on a tree and passed, and how long that took. ``narrow``: they run
    only chosen tests; ``reports``: their runners report which tests ran."""

    commands: tuple[str, ...]
    duration_s: float
    narrow: bool
    reports: bool = False


NO_RUN = TestRun((), 0.0, narrow=False)


@dataclass(frozen=True)
class PlantedTree:
    """A tree with faults behind switches, which the environment ``variable`` turns on by their
    ``numbers``, and the run that passes with all of them off. ``reached`` are the faults that the
    run reached, None if the code could not record that."""

    tree: str
    variable: str
    numbers: Mapping[Fault, int]
    run: TestRun = NO_RUN
    reached: frozenset[Fault] | None = None

    def list_reached(self) -> list[Fault]:
        """The faults that the run reached, in the order in which they were chosen; all faults if
        that is unknown."""
        chosen = sorted(self.numbers, key=self.numbers.__getitem__)
        return [f for f in chosen if self.reached is None or f in self.reached]


RunTests = Callable[[PlantedTree], tuple[TestRun | None, str]]
"""Runs tests on a planted tree. Returns the run if it passed, or else None and the output."""


@dataclass(frozen=True)
class Trial:
    """Runs tests for one purpose, the ``name`` in its logs. ``read`` reads files at the base's
    root, which define what a command runs.

    ``runs`` are the names of the logs so far. ``reached_env`` makes runs record the faults that
    they reach. ``red_without``: whether the commands fail on a tree even without faults, by the
    tree's id. ``failed`` are the tests that failed in the last ``find_run``.
    """

    checkout: TrialCheckout
    read: ReadText
    name: str
    runs: list[str] = field(default_factory=list)
    reached_env: dict[str, str] = field(default_factory=dict)
    red_without: dict[str, bool] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def check_out(self, tree: str) -> None:
        """Restore the checkout to this tree for the runs that follow."""
        self.checkout.check_out(tree)

    def build_old_product(self, subject: EvidenceSubject) -> str | None:
        """The change's tree, but with the old product code; None if no product code changes."""
        files = []
        for file in subject.change.files:
            before, after = read_sides(file)
            product = before.is_product or after.is_product
            if product and not before.tests and not after.tests:
                files.append(file)
        old_files: dict[str, bytes | None] = {file.raw_path: None for file in files}
        old_files |= {file.raw_old_path: file.old for file in files}
        return self.checkout.build_variant(subject.tree, old_files) if old_files else None

    def run(
        self, commands: Sequence[str], env: Mapping[str, str], usual_s: float | None = None
    ) -> SuiteOutcome:
        """Run commands in the checkout, one after the other until one fails."""
        return read_outcome(self._run_each(commands, env, usual_s))

    def repeat(self, run: TestRun, env: Mapping[str, str]) -> SuiteOutcome:
        """Run the commands of an earlier run again, perhaps with faults on."""
        return self.run(run.commands, env, run.duration_s)

    def _run_each(
        self, commands: Sequence[str], env: Mapping[str, str], usual_s: float | None
    ) -> list[CommandRun]:
        runner = self.checkout.runner
        runner = dataclasses.replace(runner, env={**runner.env, **self.reached_env, **env})
        runs: list[CommandRun] = []
        for command in commands:
            left = max(self.checkout.compute_left_s(), 1.0)
            most = left if usual_s is None else min(left, usual_s * 3 + EXTRA_S)
            self.runs.append(f"{self.checkout.name}-{self.name}-{len(self.runs) + 1}")
            runs.append(run_once(runner, command, self.runs[-1], self.read, most))
            if not runs[-1].result.ok:
                break
        return runs

    def read_output(self) -> str:
        """The end of the last run's output."""
        logs = self.checkout.runner.logs
        last = self.runs[-1]
        ends = (logs.read_tail(f"{last}.{kind}", LONGEST_OUTPUT) for kind in ("out", "err"))
        return "\n".join(end.decode("utf-8", "replace") for end in ends)

    def record_reached(self, variable: str) -> None:
        """Make runs record the faults that they reach, until ``read_reached``."""
        # In TMPDIR: commands in a sandbox may write only there and in the checkout.
        path = self.checkout.runner.scratch / "tmp" / variable.lower()
        self.reached_env.clear()
        self.reached_env[build_reached_name(variable)] = str(path)

    def read_reached(self, planted: PlantedTree) -> frozenset[Fault] | None:
        """The faults that runs reached since ``record_reached``; None if nothing was
        recorded, not even that the code was loaded."""
        path = Path(self.reached_env.pop(build_reached_name(planted.variable)))
        # Tests may have put a link or a pipe in its place.
        try:
            seen = set(read_regular(path.parent, path.name, LONGEST_OUTPUT).split())
        except RefusedFileError:
            return None
        return frozenset(f for f, number in planted.numbers.items() if b"%d" % number in seen)

    def find_run(
        self, focused: Iterable[FocusedCommand], env: Mapping[str, str]
    ) -> tuple[TestRun | None, str]:
        """The run of the first of these commands that passes and runs a test; or else None and
        the output of all of them."""
        outputs = []
        self.failed.clear()
        for each in focused:
            command = shlex.join(each.argv)
            outcome = self.run([command], env)
            output = self.read_output()
            if not outcome.red and outcome.ended and (outcome.ran or each.count_tests(output)):
                return TestRun((command,), outcome.duration_s, True, bool(outcome.ran)), ""
            outputs.append(output)
            self.failed.update(outcome.failed)
        return None, "\n".join(outputs)

    def find_whole_run(self, env: Mapping[str, str]) -> tuple[TestRun | None, str]:
        """The run of the project's own commands if they pass, or else None and their output."""
        outcome = self.run(self.checkout.commands, env)
        if outcome.red or not self.checkout.commands:
            return None, self.read_output() if self.runs else ""
        return TestRun(self.checkout.commands, outcome.duration_s, False, bool(outcome.ran)), ""


def plant(
    trial: Trial, tree: str, faults: Sequence[Fault], runs: Sequence[RunTests]
) -> PlantedTree | None:
    """Put faults into a tree, each behind a switch, and check it out.

    ``runs`` are tried in order until one passes with every switch off. If an output names lines of
    faults, as a compiler's does, these faults are dropped, and everything starts again. None if no
    run passes.
    """
    remaining, read = list(faults), trial.checkout.open_files(tree).read
    for _ in range(MOST_BUILDS):
        # A random name, so that tests cannot look for it.
        variable = f"X{secrets.token_hex(8).upper()}"
        switched = write_switched_files(remaining, read, variable)
        if not switched.numbers:
            break
        changed = trial.checkout.build_variant(tree, switched.files)
        planted = PlantedTree(changed, variable, switched.numbers)
        trial.check_out(changed)
        trial.record_reached(variable)
        refused: set[Fault] = set()
        for run_tests in runs:
            run, output = run_tests(planted)
            if run is not None:
                return dataclasses.replace(planted, run=run, reached=trial.read_reached(planted))
            if refused := set(find_refused_faults(remaining, output)):
                break
        if not refused:
            break
        remaining = [fault for fault in remaining if fault not in refused]
    trial.reached_env.clear()  # tests of later runs must not see the variable
    return None


def build_environment(planted: PlantedTree, faults: Sequence[Fault] = ()) -> dict[str, str]:
    """The environment that turns these faults on. Without faults, the variable has an unused
    number, so that tests cannot tell from it whether they should fail."""
    used = set(planted.numbers.values())
    free = [number for number in range(1, 2 * max(used) + 2) if number not in used]
    numbers = [planted.numbers[fault] for fault in faults]
    return turn_on(planted.variable, numbers or [secrets.choice(free)])
