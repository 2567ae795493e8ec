"""Several faults at once against the whole suite: this reveals rewritten reports, exit statuses or
settings, and tests hidden from the runner."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.single_canaries import IN_JOB
from gitlab_nightshift.proof.running.suite_outcome import SuiteOutcome
from gitlab_nightshift.proof.running.switches import find_refused_faults, write_faulty_files
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.proof.running.trial import (
    MOST_BUILDS,
    TestRun,
    Trial,
)

MOST_FAULTS = 5
"""Faults at once; with many more, most tests end in exceptions, whatever they compare."""
MOST_TRIES = 3
REDUCTION = 4
"""If a fault ends the run, the next try has so many times fewer."""
CUT_SHORT = 0.5
"""A run that reports less than this share of the tests was ended by a fault."""


@dataclass(frozen=True)
class CombinedRun:
    """Faults planted in the base at once, and the outcome of the untouched suite."""

    faults: tuple[Fault, ...]
    outcome: SuiteOutcome


@dataclass(frozen=True)
class Suite:
    """A tree, its files, and the project's commands, which pass on it without faults."""

    tree: str
    files: TreeFiles
    usual: TestRun


def run_on_base(
    trial: Trial, suite: Suite, choose: Callable[[int], Sequence[Fault]], usual_tests: int
) -> CombinedRun | None:
    """Run the suite with as many faults as ``choose`` is asked for; ``usual_tests`` is its number
    of tests. After a useless run tries other faults, or fewer; None if all runs are useless."""
    faults = choose(MOST_FAULTS)
    for _ in range(MOST_TRIES):
        run = run_with_faults(trial, suite, faults)
        if run and run.outcome.noticed and not is_cut_short(run.outcome, usual_tests):
            return run
        green = run is not None and run.outcome.ended and not run.outcome.red
        # Few faults that nothing notices may hide one another: then still fewer, not others.
        try_others = green and len(faults) == MOST_FAULTS
        faults = choose(MOST_FAULTS if try_others else max(len(faults) // REDUCTION, 1))
    return None


def is_cut_short(outcome: SuiteOutcome, usual_tests: int) -> bool:
    """True if a fault ended the run before many of the usual tests ran."""
    return len(outcome.ran) < usual_tests * CUT_SHORT


def keep_steady(trial: Trial, suite: Suite, before: CombinedRun) -> SuiteOutcome:
    """The base's outcome, less what a second run does not confirm: flaky tests do not count."""
    run = run_with_faults(trial, suite, before.faults)
    again = run.outcome if run else SuiteOutcome(red=False)
    failed = before.outcome.failed & again.failed
    return replace(before.outcome, red=again.red, ended=again.ended, failed=failed)


def run_with_faults(trial: Trial, suite: Suite, faults: Sequence[Fault]) -> CombinedRun | None:
    """Run the suite with all these faults in its code, without a switch: tests can tell only from
    the code's behaviour. Faults that a compiler refuses are left out; None if none is left."""
    left = list(faults)
    for _ in range(MOST_BUILDS):
        if not left:
            return None
        files = write_faulty_files(left, suite.files.read)
        trial.hold(trial.lab.build_variant(suite.tree, files))
        outcome = trial.run(suite.usual.commands, IN_JOB, suite.usual.duration_s)
        refused = set(find_refused_faults(left, trial.read_output())) if outcome.red else set()
        if outcome.failed or not refused:
            return (
                None
                if _is_red_without(trial, suite, outcome)
                else CombinedRun(tuple(left), outcome)
            )
        left = [fault for fault in left if fault not in refused]
    return None


def _is_red_without(trial: Trial, suite: Suite, outcome: SuiteOutcome) -> bool:
    """True if only the exit status is red, and is so without the faults, too."""
    if not (outcome.red and outcome.unknown):
        return False
    if suite.tree not in trial.red_without:
        trial.hold(suite.tree)
        outcome = trial.run(suite.usual.commands, IN_JOB, suite.usual.duration_s)
        trial.red_without[suite.tree] = outcome.red
    return trial.red_without[suite.tree]
