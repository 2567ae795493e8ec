"""Canaries far from a change, all at once, against the whole suite: this reveals rewritten reports,
forced exit statuses or settings, and tests hidden from the runner."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gitlab_nightshift.proof.evidence.lab import Evidence
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.canary_judgement import (
    FLAG,
    TITLE,
    Setting,
    count_faults,
    fail_unknown,
    format_tests,
    judge_singles,
    refuse,
    report_unknown,
)
from gitlab_nightshift.proof.running.fault_choice import choose_far_faults, keep_unchanged
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.single_canaries import (
    IN_JOB,
    find_canaries,
    judge_canaries,
    plant_singles,
)
from gitlab_nightshift.proof.running.suite_outcome import SuiteOutcome, is_reported_as
from gitlab_nightshift.proof.running.switches import find_refused_faults, write_faulty_files
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.proof.running.trial import MOST_BUILDS
from gitlab_nightshift.proof.syntax.single_test import Test
from gitlab_nightshift.records.verdicts import Check, CheckOutcome

MOST_FAULTS = 5
"""Faults at once; with many more, most tests end in exceptions, whatever they compare."""
_MOST_TRIES = 3
_REDUCTION = 4
"""If a fault ends the run, the next try has so many times fewer."""
_CUT_SHORT = 0.5
"""A run that reports less than this share of the tests was ended by a fault."""
_CANDIDATES = 8
"""Faults drawn for each wanted one, as the change may edit some of their functions."""

_Choose = Callable[[Setting, int], Sequence[Fault]]


@dataclass(frozen=True)
class CombinedRun:
    """Faults planted in a tree at once, and the outcome of the whole suite with them."""

    faults: tuple[Fault, ...]
    outcome: SuiteOutcome


def try_combined(setting: Setting, base: BaseCanaries) -> Evidence:
    """Compare the whole suite on the change with that on the base, both with the same faults. A
    lost fault must be noticed on the base again; ``base`` caches its run for other attempts."""
    if not base.tried:
        base.tried = True
        base.combined = _find_noticed(setting, _choose_far)
    if base.combined is None:
        return report_unknown("no fault was found that the tests of the base notice")
    before = _leave_out_changed(setting, base.combined)
    if before is None:
        return report_unknown("no fault was found outside of the functions that it edits")
    faults, old = before.faults, before.outcome
    moved = keep_unchanged(setting.subject.change, setting.code, faults)
    new = _run_on_change(setting, moved, faults)
    if new is None or not new.ended or (new.red and not _list_silent(old, new)):
        return _judge_combined(setting, faults, moved, old, new)
    steady = _keep_steady(setting, before)
    flaky = old.failed - steady.failed
    text = f"{format_tests(flaky)} had two results on the base: not counted"
    found = report_unknown(text) if flaky or not steady.noticed else Evidence()
    return found + _judge_combined(setting, faults, moved, steady, new) if steady.noticed else found


def _find_noticed(setting: Setting, choose: _Choose) -> CombinedRun | None:
    """Run the base's suite with as many faults as ``choose`` is asked for. After a useless run try
    other faults, or fewer; None if all runs are useless."""
    faults = choose(setting, MOST_FAULTS)
    for _ in range(_MOST_TRIES):
        run = _run_on_base(setting, faults)
        if run and run.outcome.noticed and not _is_cut_short(run.outcome, setting.tests_before):
            return run
        green = run is not None and run.outcome.ended and not run.outcome.red
        # A few faults that nothing notices may hide one another: then even fewer, not others.
        try_others = green and len(faults) == MOST_FAULTS
        number = MOST_FAULTS if try_others else max(len(faults) // _REDUCTION, 1)
        faults = choose(setting, number)
    return None


def _choose_far(setting: Setting, most: int) -> list[Fault]:
    return choose_far_faults(setting.code, setting.rng, most)


def _choose_far_unchanged(setting: Setting, most: int) -> list[Fault]:
    """Faults in functions that the change leaves alone."""
    many = choose_far_faults(setting.code, setting.rng, most * _CANDIDATES)
    return list(keep_unchanged(setting.subject.change, setting.code, many))[:most]


def _leave_out_changed(setting: Setting, combined: CombinedRun) -> CombinedRun | None:
    """The base's run with only the faults in functions that the change leaves alone, or with other
    faults."""
    moved = keep_unchanged(setting.subject.change, setting.code, combined.faults)
    faults = tuple(fault for fault in combined.faults if fault in moved)
    if faults == combined.faults:
        return combined
    if faults:
        fewer = _run_on_base(setting, faults)
        if fewer is not None and fewer.outcome.noticed:
            return fewer
    return _find_noticed(setting, _choose_far_unchanged)


def _is_cut_short(outcome: SuiteOutcome, usual_tests: frozenset[str]) -> bool:
    """True if a fault ended the run before many of the usual tests ran."""
    return len(outcome.ran) < len(usual_tests) * _CUT_SHORT


def _list_silent(old: SuiteOutcome, new: SuiteOutcome) -> frozenset[str]:
    return (old.failed & new.ran) - new.failed


def _keep_steady(setting: Setting, before: CombinedRun) -> SuiteOutcome:
    """The base's outcome, less what a second run does not confirm: flaky tests do not count."""
    run = _run_on_base(setting, before.faults)
    again = run.outcome if run else SuiteOutcome(red=False)
    failed = before.outcome.failed & again.failed
    return replace(before.outcome, red=again.red, ended=again.ended, failed=failed)


def _run_on_base(setting: Setting, faults: Sequence[Fault]) -> CombinedRun | None:
    return _run_with_faults(setting, setting.subject.base, setting.before, faults)


def _run_on_change(
    setting: Setting, moved: Mapping[Fault, Fault], faults: tuple[Fault, ...]
) -> SuiteOutcome | None:
    """Run the suite on the change, twice if nothing is noticed: the machine may have been too busy.
    None if the faults cannot be planted there."""
    planted = [moved[fault] for fault in faults]
    for _ in range(2):
        seen = _run_with_faults(setting, setting.subject.tree, setting.after, planted)
        if seen is not None and seen.outcome.noticed:
            break
    return seen.outcome if seen is not None and len(seen.faults) == len(faults) else None


def _run_with_faults(
    setting: Setting, tree: str, files: TreeFiles, faults: Sequence[Fault]
) -> CombinedRun | None:
    """Run the suite with all these faults in the tree's code, without a switch: tests can tell only
    from the code's behaviour. Faults that a compiler refuses are left out; None if none is left."""
    trial, left = setting.trial, list(faults)
    for _ in range(MOST_BUILDS):
        if not left:
            return None
        trial.check_out(trial.lab.build_variant(tree, write_faulty_files(left, files.read)))
        outcome = trial.run(setting.usual.commands, IN_JOB, setting.usual.duration_s)
        refused = set(find_refused_faults(left, trial.read_output())) if outcome.red else set()
        if outcome.failed or not refused:
            useless = _is_red_without(setting, tree, outcome)
            return None if useless else CombinedRun(tuple(left), outcome)
        left = [fault for fault in left if fault not in refused]
    return None


def _is_red_without(setting: Setting, tree: str, outcome: SuiteOutcome) -> bool:
    """True if only the exit status is red, and is so without the faults, too."""
    if not (outcome.red and outcome.unknown):
        return False
    trial = setting.trial
    if tree not in trial.red_without:
        trial.check_out(tree)
        alone = trial.run(setting.usual.commands, IN_JOB, setting.usual.duration_s)
        trial.red_without[tree] = alone.red
    return trial.red_without[tree]


def _judge_combined(
    setting: Setting,
    faults: tuple[Fault, ...],
    moved: Mapping[Fault, Fault],
    old: SuiteOutcome,
    new: SuiteOutcome | None,
) -> Evidence:
    number = count_faults(len(faults))
    if new is None or not new.ended:
        return fail_unknown(setting, f"with {number} the suite has no result any more")
    if new.disagrees and not old.disagrees:
        text = f"With {number} {len(new.failed)} tests fail, and the command ends with 0."
        return refuse(setting, "unreliable-report", "", text)
    if not new.red:
        before = f"before the change {format_tests(old.failed)} noticed"
        text = f"With {number} the suite passes; {before}."
        return refuse(setting, FLAG, "", text)
    if old.failed & new.ran and not new.failed:
        text = f"With {number} the command fails, but no test is reported as failed."
        return refuse(setting, "unreliable-report", "", text)
    if (old.failed and not new.failed) or _is_cut_short(new, setting.usual_tests):
        return fail_unknown(setting, f"with {number} the suite does not run to its end")
    silent = _list_silent(old, new)
    text = (
        f"{number}: {len(old.failed)} of the suite's tests failed before the change,"
        f" {len(new.failed)} with it"
    )
    found = Evidence((Check(TITLE, CheckOutcome.PASSED, text),))
    return found + _look_at_silent(setting, faults, moved, silent) if silent else found


def _look_at_silent(
    setting: Setting,
    faults: tuple[Fault, ...],
    moved: Mapping[Fault, Fault],
    silent: frozenset[str],
) -> Evidence:
    """Try each fault alone on the tests that still run, but now pass with the faults on."""
    old, new = (_find_tests(files, silent) for files in (setting.before, setting.after))
    trial, subject = setting.trial, setting.subject
    planted = plant_singles(trial, subject.base, old, faults, setting.before)
    reached = planted.list_reached() if planted else []
    found = find_canaries(trial, planted, old, reached, setting.usual.duration_s)
    if not found.canaries:
        return report_unknown(f"{format_tests(silent)} notice none of them by itself")
    judged = judge_canaries(trial, subject, new, found, moved, setting.after)
    return judge_singles(setting, judged)


def _find_tests(files: TreeFiles, names: frozenset[str]) -> list[Test]:
    return [
        test
        for side in files.tests
        for test in side.tests
        if any(is_reported_as(name, test) for name in names)
    ]
