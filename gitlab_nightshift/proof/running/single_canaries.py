"""Faults planted one at a time: what the tests of the base noticed, those of a change must too."""

import statistics
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from gitlab_nightshift.proof.evidence.lab import EvidenceSubject
from gitlab_nightshift.proof.evidence.selected_tests import (
    FocusedCommand,
    SelectedTests,
    Surroundings,
    build_focused_commands,
)
from gitlab_nightshift.proof.running.fault_choice import take_in_turn
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.reported_names import is_reported_as
from gitlab_nightshift.proof.running.suite_outcome import SuiteOutcome
from gitlab_nightshift.proof.running.switches import write_faulty_file
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.proof.running.trial import (
    PlantedTree,
    TestRun,
    Trial,
    Way,
    build_environment,
    plant,
)
from gitlab_nightshift.proof.syntax.single_test import Test

MOST_CANARIES = 10
SHARE = 1.5
"""The part of the suite's time that looking for canaries may take, ..."""
FEWEST_TRIES, MOST_TRIES = 14, 20
LONG_S = 3.0
FEWEST_LONG_TRIES = 6
"""... but so many are tried at least, or so many where each takes long."""
IN_JOB = {"CI": "1"}
"""As in the job of a merge request: a test that is skipped there protects nobody."""
CONFIRMATIONS = 2
"""Runs of the base that have to notice what is lost."""
MOST_TESTS = 40
"""Named on a command line; of more, whole files are run."""


@dataclass(frozen=True)
class Canary:
    """A fault that tests of the base noticed; ``found_by`` are their reported names, none where
    only the exit status told."""

    fault: Fault
    found_by: frozenset[str]


@dataclass(frozen=True)
class JudgedCanary:
    """What became of a canary with the change applied. ``kept`` is None where that is not known;
    ``silent`` are tests that found it, still run, and pass now, where no new one notices it;
    ``noticed_by`` are those of the chosen tests that fail; ``elsewhere`` is true where it was none
    of these that noticed it."""

    canary: Canary
    kept: bool | None
    silent: frozenset[str] = frozenset()
    noticed_by: frozenset[str] = frozenset()
    elsewhere: bool = False


@dataclass(frozen=True)
class FoundCanaries:
    """Canaries, and the base's tree that they are switched on in; None where there is none."""

    planted: PlantedTree | None
    canaries: tuple[Canary, ...]


def plant_singles(
    trial: Trial, tree: str, tests: Sequence[Test], faults: Sequence[Fault], read: TreeFiles
) -> PlantedTree | None:
    """Faults behind switches, and how these tests run there; None where they cannot."""
    return plant(trial, tree, faults, read.read, _list_ways(trial, tests))


def find_canaries(
    trial: Trial,
    planted: PlantedTree | None,
    tests: Sequence[Test],
    faults: Sequence[Fault],
    usual_s: float,
) -> FoundCanaries:
    """Those of these faults that these tests notice on the base, one run each. Of more than are
    used, by turns those that the most tests notice that notice none of the others, and those that
    the fewest do: these would let them pass. ``usual_s`` are the seconds of the whole suite."""
    if planted is None:
        return FoundCanaries(None, ())
    trial.hold(planted.tree)
    found: list[Canary] = []
    spent: list[float] = []
    for fault in faults:
        if _is_enough(spent, usual_s) or trial.lab.compute_left_s() <= 0:
            break
        outcome = _run_with(trial, planted, fault, planted.run)
        spent.append(outcome.duration_s)
        own = any(is_reported_as(name, test) for name in outcome.failed for test in tests)
        if outcome.noticed and (own or not planted.run.reports):
            found.append(Canary(fault, outcome.failed))
    few = sorted(found, key=lambda canary: len(canary.found_by))
    chosen = dict.fromkeys(take_in_turn([list(_spread_over_tests(few)), few]))
    return FoundCanaries(planted, tuple(chosen)[:MOST_CANARIES])


def _spread_over_tests(canaries: Sequence[Canary]) -> Iterator[Canary]:
    """First what the most tests notice, then what the most of the others do, and so on."""
    left, seen = list(canaries), set[str]()
    while left:
        best = max(left, key=lambda canary: len(canary.found_by - seen))
        left.remove(best)
        seen |= best.found_by
        yield best


def _is_enough(spent: Sequence[float], usual_s: float) -> bool:
    """Whether enough faults were tried: fewer where each run takes long."""
    fewest = FEWEST_LONG_TRIES if spent and statistics.median(spent) > LONG_S else FEWEST_TRIES
    late = len(spent) >= fewest and sum(spent) > usual_s * SHARE
    return late or len(spent) >= MOST_TRIES


def judge_canaries(
    trial: Trial,
    subject: EvidenceSubject,
    tests: Sequence[Test],
    base: FoundCanaries,
    moved: Mapping[Fault, Fault],
    read: TreeFiles,
    planted: PlantedTree | None = None,
) -> list[JudgedCanary]:
    """Each canary with the change applied, in ``planted`` where that is there already: first on
    these tests, which are those after it; what they do not notice, on the whole suite, and then on
    the old product code with the new tests, where the change may have made a function unreachable.
    What is lost then has to be noticed on the base again, or is left out: a test with two results
    counts for nothing."""
    canaries = base.canaries
    faults = [moved[canary.fault] for canary in canaries]
    if planted is None:
        planted = plant_singles(trial, subject.tree, tests, faults, read)
    if planted is None:
        return [JudgedCanary(canary, None) for canary in canaries]
    trial.hold(planted.tree)
    judged = [_judge(trial, planted, canary, moved[canary.fault]) for canary in canaries]
    if planted.run.narrow:
        judged = _look_elsewhere(trial, planted, judged, moved)
    kept = next((each for each in judged if each.kept and not each.elsewhere), None)
    judged = _try_old_product(trial, subject, tests, judged)
    if kept is not None and _is_blind(trial, subject, planted, moved[kept.canary.fault], read):
        judged = [replace(each, kept=False) if each == kept else each for each in judged]
    return _confirm(trial, base, judged)


def _is_blind(
    trial: Trial, subject: EvidenceSubject, planted: PlantedTree, fault: Fault, read: TreeFiles
) -> bool:
    """Whether tests that noticed a fault behind its switch do not notice it without one: they look
    only where they see a switch."""
    source = write_faulty_file(fault, read.read(fault.path) or b"")
    trial.hold(trial.lab.build_variant(subject.tree, {fault.path: source}))
    outcome = trial.run(planted.run.commands, IN_JOB, planted.run.duration_s)
    return outcome.ended and not outcome.red


def _confirm(
    trial: Trial, base: FoundCanaries, judged: Sequence[JudgedCanary]
) -> list[JudgedCanary]:
    """Those that the base notices again, by the same tests, where something is lost: tests with two
    results count for nothing."""
    found = list(judged)
    for _ in range(CONFIRMATIONS):
        if base.planted is None or not any(map(_is_weaker, found)):
            break
        trial.hold(base.planted.tree)
        run = base.planted.run
        quiet = trial.run(run.commands, _build_env(base.planted), run.duration_s)
        again = [_repeat(trial, base.planted, each, quiet) for each in found]
        found = [each for each in again if each is not None]
    return found


def _is_weaker(each: JudgedCanary) -> bool:
    return each.kept is False or bool(each.silent)


def _repeat(
    trial: Trial, planted: PlantedTree, each: JudgedCanary, quiet: SuiteOutcome
) -> JudgedCanary | None:
    """``quiet`` is the run without a fault: what fails there notices nothing."""
    if not _is_weaker(each):
        return each
    again = _run_with(trial, planted, each.canary.fault, planted.run)
    steady = each.canary.found_by & again.failed - quiet.failed
    if not steady and (each.canary.found_by or quiet.red or not again.noticed):
        return None
    return replace(each, silent=each.silent & steady)


def _judge(trial: Trial, planted: PlantedTree, canary: Canary, fault: Fault) -> JudgedCanary:
    if fault not in planted.numbers or trial.lab.compute_left_s() <= 0:
        return JudgedCanary(canary, None)
    return _read_judgement(canary, _run_with(trial, planted, fault, planted.run))


def _read_judgement(canary: Canary, outcome: SuiteOutcome) -> JudgedCanary:
    silent = (canary.found_by & outcome.ran) - outcome.failed
    if outcome.noticed and (outcome.failed or not canary.found_by):
        moved = outcome.failed - canary.found_by
        return JudgedCanary(canary, True, frozenset() if moved else silent, outcome.failed)
    died = outcome.red and not canary.found_by & outcome.ran
    return JudgedCanary(canary, None if died or not outcome.ended else False, silent)


def _look_elsewhere(
    trial: Trial,
    planted: PlantedTree,
    judged: Sequence[JudgedCanary],
    moved: Mapping[Fault, Fault],
) -> list[JudgedCanary]:
    """The whole suite on what the chosen tests do not notice."""
    if all(each.kept is not False for each in judged):
        return list(judged)
    whole, _ = trial.find_whole_run(_build_env(planted))
    found: list[JudgedCanary] = []
    for each in judged:
        if each.kept is False and whole is not None:
            outcome = _run_with(trial, planted, moved[each.canary.fault], whole)
            kept = outcome.noticed if outcome.ended else None
            found.append(replace(each, kept=kept, elsewhere=True))
        elif each.kept is False:
            found.append(JudgedCanary(each.canary, None, each.silent))
        else:
            found.append(each)
    return found


def _try_old_product(
    trial: Trial, subject: EvidenceSubject, tests: Sequence[Test], judged: Sequence[JudgedCanary]
) -> list[JudgedCanary]:
    """What the new tests still notice in the product code as it was, the change does not hide."""
    lost = [each for each in judged if each.kept is False]
    tree = trial.build_old_product(subject) if lost else None
    if tree is None:
        return list(judged)
    files = TreeFiles(trial.lab.checkout.repository, tree)
    faults = [each.canary.fault for each in lost]
    planted = plant(trial, tree, faults, files.read, _list_ways(trial, tests))
    if planted is None:
        return list(judged)
    seen = {c.canary: _judge(trial, planted, c.canary, c.canary.fault) for c in lost}
    return [seen[j.canary] if seen.get(j.canary) and seen[j.canary].kept else j for j in judged]


def _run_with(trial: Trial, planted: PlantedTree, fault: Fault, run: TestRun) -> SuiteOutcome:
    return trial.run(run.commands, _build_env(planted, [fault]), run.duration_s)


def _build_env(planted: PlantedTree, faults: Sequence[Fault] = ()) -> dict[str, str]:
    return {**build_environment(planted, faults), **IN_JOB}


def _list_ways(trial: Trial, tests: Sequence[Test]) -> tuple[Way, ...]:
    """These tests alone where that can be, without those that fail though no fault is on, as what
    looks at the size of the code does; else the project's own commands."""

    def run_passing(planted: PlantedTree) -> tuple[TestRun | None, str]:
        env = _build_env(planted)
        run, printed = trial.find_run(list_focused(trial, tests), env)
        if run is None and (left := _list_passing(tests, trial.failed)):
            run, _ = trial.find_run(list_focused(trial, left), env)
        return run, printed

    return run_passing, lambda planted: trial.find_whole_run(_build_env(planted))


def _list_passing(tests: Sequence[Test], failed: Set[str]) -> list[Test]:
    """Those that are not reported to fail; none where no report names one that does."""
    passing = [test for test in tests if not any(is_reported_as(name, test) for name in failed)]
    return passing if len(passing) < len(tests) else []


def list_focused(trial: Trial, tests: Sequence[Test]) -> list[FocusedCommand]:
    """Commands that run these tests alone, the most likely first."""
    return list(_list_by_language(trial, tests))


def _list_by_language(trial: Trial, tests: Sequence[Test]) -> Iterator[FocusedCommand]:
    around = Surroundings(trial.lab.commands, lambda path: (trial.lab.folder / path).exists())
    for language in dict.fromkeys(test.language.name for test in tests):
        mine = [test for test in tests if test.language.name == language]
        files = tuple(dict.fromkeys(test.path for test in mine))
        names = tuple(dict.fromkeys(test.name for test in mine))
        few = len(mine) <= MOST_TESTS
        qualified = tuple((t.path, t.qualified) for t in mine) if few else ()
        chosen = SelectedTests(files, names, qualified)
        yield from build_focused_commands(language, chosen, around)
