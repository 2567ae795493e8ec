"""Many faults on at once, and the whole suite: what rewrites reports, exit statuses or settings,
or takes tests away from the runner, shows here."""

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
"""Of many more, most tests end in exceptions, whatever they compare."""
MOST_TRIES = 3
FEWER = 4
"""Where a fault ends the run: so many times fewer are tried next."""
CUT_SHORT = 0.5
"""A run that reports less than this part of the tests was ended by a fault."""


@dataclass(frozen=True)
class CombinedRun:
    """Faults of the base, all in it at once, and what the untouched suite said."""

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
    """The suite with faults of which ``choose`` gives so many; ``usual_tests`` are how many it has.
    None where no such run tells anything: others are tried, or fewer."""
    faults = choose(MOST_FAULTS)
    for _ in range(MOST_TRIES):
        seen = run_with_faults(trial, suite, faults)
        if seen and seen.outcome.noticed and not is_cut_short(seen.outcome, usual_tests):
            return seen
        green = seen is not None and seen.outcome.ended and not seen.outcome.red
        others = green and len(faults) == MOST_FAULTS  # of fewer, one may hide another
        faults = choose(MOST_FAULTS if others else max(len(faults) // FEWER, 1))
    return None


def is_cut_short(outcome: SuiteOutcome, usual_tests: int) -> bool:
    """Whether a fault ended the run before many of the usual tests ran."""
    return len(outcome.ran) < usual_tests * CUT_SHORT


def keep_steady(trial: Trial, suite: Suite, before: CombinedRun) -> SuiteOutcome:
    """What the base shows again: tests with two results count for nothing."""
    seen = run_with_faults(trial, suite, before.faults)
    again = seen.outcome if seen else SuiteOutcome(red=False)
    failed = before.outcome.failed & again.failed
    return replace(before.outcome, red=again.red, ended=again.ended, failed=failed)


def run_with_faults(trial: Trial, suite: Suite, faults: Sequence[Fault]) -> CombinedRun | None:
    """The suite with all these faults in its code and no switch: nothing but the code itself tells
    that they are there. Without what a compiler refuses; None where nothing is left."""
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
    """Where only the status tells: whether it is red without the faults, too."""
    if not (outcome.red and outcome.unknown):
        return False
    if suite.tree not in trial.red_without:
        trial.hold(suite.tree)
        outcome = trial.run(suite.usual.commands, IN_JOB, suite.usual.duration_s)
        trial.red_without[suite.tree] = outcome.red
    return trial.red_without[suite.tree]
