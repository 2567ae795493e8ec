"""Many faults on at once, and the whole suite: what rewrites reports, exit statuses or settings,
or takes tests away from the runner, shows here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.single_canaries import IN_JOB
from gitlab_nightshift.proof.running.suite_outcome import SuiteOutcome
from gitlab_nightshift.proof.running.switches import find_refused_faults
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.proof.running.trial import (
    PlantedTree,
    TestRun,
    Trial,
    build_environment,
    plant,
)

MOST_FAULTS = 12
MOST_TRIES = 3
CUT_SHORT = 0.5
"""A run that reports less than this part of the tests was ended by a fault."""


@dataclass(frozen=True)
class CombinedRun:
    """Faults of the base, all on at once, and what the untouched suite said; ``planted`` is the
    tree."""

    faults: tuple[Fault, ...]
    planted: PlantedTree
    outcome: SuiteOutcome


def run_on_base(
    trial: Trial,
    tree: str,
    choose: Callable[[int], Sequence[Fault]],
    read: TreeFiles,
    usual: TestRun,
    usual_tests: int,
) -> CombinedRun | None:
    """The suite with faults of which ``choose`` gives so many. ``usual`` is its run without them,
    ``usual_tests`` are how many the base has. None where no such run tells anything: others are
    tried, or fewer."""
    faults = choose(MOST_FAULTS)
    for _ in range(MOST_TRIES):
        seen = _run_combined(trial, tree, faults, read, usual)
        if seen and seen.outcome.noticed and not is_cut_short(seen.outcome, usual_tests):
            return seen
        green = seen is not None and seen.outcome.ended and not seen.outcome.red
        others = green and len(faults) == MOST_FAULTS  # of fewer, one may hide another
        faults = choose(MOST_FAULTS if others else max(len(faults) // 2, 1))
    return None


def is_cut_short(outcome: SuiteOutcome, usual_tests: int) -> bool:
    """Whether a fault ended the run before many of the usual tests ran."""
    return len(outcome.ran) < usual_tests * CUT_SHORT


def run_again_on_base(trial: Trial, before: CombinedRun, faults: Sequence[Fault]) -> SuiteOutcome:
    """The same run with fewer faults, where a change edits the functions of the others."""
    trial.hold(before.planted.tree)
    run = before.planted.run
    return trial.run(run.commands, _build_env(before.planted, faults), run.duration_s)


def keep_steady(
    trial: Trial, before: CombinedRun, faults: Sequence[Fault], old: SuiteOutcome
) -> SuiteOutcome:
    """What the base shows again: tests with two results count for nothing."""
    again = run_again_on_base(trial, before, faults)
    return replace(old, red=again.red, ended=again.ended, failed=old.failed & again.failed)


def run_on_change(
    trial: Trial,
    tree: str,
    moved: Mapping[Fault, Fault],
    faults: Sequence[Fault],
    read: TreeFiles,
    usual: TestRun,
) -> SuiteOutcome | None:
    """The suite with the change and these faults; None where they cannot be planted there."""
    seen = _run_combined(trial, tree, [moved[fault] for fault in faults], read, usual)
    return seen.outcome if seen is not None and len(seen.faults) == len(faults) else None


def _run_combined(
    trial: Trial, tree: str, faults: Sequence[Fault], read: TreeFiles, usual: TestRun
) -> CombinedRun | None:
    """A red run of which no test is reported may be a compiler's: then again without what it
    refused. Without the faults the suite was run before."""
    seen: list[SuiteOutcome] = []

    def run_all(planted: PlantedTree) -> tuple[TestRun | None, str]:
        env = _build_env(planted, tuple(planted.numbers))
        seen.append(trial.run(usual.commands, env, usual.duration_s))
        if not seen[-1].red or seen[-1].failed:
            return usual, ""
        printed = trial.read_output()
        refused = find_refused_faults(list(planted.numbers), printed)
        return (None, printed) if refused else (usual, "")

    planted = plant(trial, tree, faults, read.read, [run_all])
    if planted is None or _is_red_without(trial, seen[-1], usual):
        return None
    return CombinedRun(tuple(planted.numbers), planted, seen[-1])


def _is_red_without(trial: Trial, outcome: SuiteOutcome, usual: TestRun) -> bool:
    """Where only the status tells: whether it is red with all faults off, too."""
    only_status = outcome.red and bool(outcome.unknown)
    return only_status and trial.run(usual.commands, IN_JOB, usual.duration_s).red


def _build_env(planted: PlantedTree, faults: Sequence[Fault]) -> dict[str, str]:
    return {**build_environment(planted, faults), **IN_JOB}
