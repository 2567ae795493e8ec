"""Canaries far from a change, all at once, against the whole suite: this reveals rewritten reports,
forced exit statuses or settings, and tests hidden from the runner."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from gitlab_nightshift.proof.evidence.workbench import Evidence, refuse, report_check
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries, CombinedRun
from gitlab_nightshift.proof.running.canary_judgement import (
    FLAG,
    TITLE,
    CanaryInputs,
    count_faults,
    fail_unknown,
    format_tests,
    judge_singles,
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
from gitlab_nightshift.proof.running.switches import find_refused_faults, write_faulty_files
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.proof.running.trial import MOST_BUILDS, SuiteOutcome, is_reported_as
from gitlab_nightshift.proof.syntax.collected_tests import Test
from gitlab_nightshift.records.verdicts import CheckOutcome

MOST_FAULTS = 5
"""Faults at once; with many more, most tests end in exceptions, whatever they compare."""
_MOST_TRIES = 3
_REDUCTION = 4  # if a fault ends the run, the next try has so many times fewer
_CUT_SHORT = 0.5  # a run that reports less than this share of the tests was ended by a fault
_CANDIDATES = 8  # faults drawn for each wanted one, as the change may edit some of their functions


def try_combined(inputs: CanaryInputs, base: BaseCanaries) -> Evidence:
    """Compare the whole suite on the change with that on the base, both with the same faults. A
    lost fault must be noticed on the base again; ``base`` caches its run for other attempts."""
    if not base.tried:
        base.tried = True
        choose = partial(choose_far_faults, inputs.code, inputs.rng)
        base.combined = _find_noticed(inputs, choose)
    if base.combined is None:
        return report_unknown("no fault was found that the tests of the base notice")
    before = _leave_out_changed(inputs, base.combined)
    if before is None:
        return report_unknown("no fault was found outside of the functions that it edits")
    faults, old = before.faults, before.outcome
    moved = keep_unchanged(inputs.subject.change, inputs.code, faults)
    new = _run_on_change(inputs, moved, faults)
    if new is None or not new.ended or (new.red and not _list_silent(old, new)):
        return _judge_combined(inputs, faults, moved, old, new)
    # Flaky tests do not count: a second run on the base has to confirm the first.
    run = _run_on_base(inputs, faults)
    again = run.outcome if run else SuiteOutcome(red=False)
    failed = old.failed & again.failed
    steady = replace(old, red=again.red, ended=again.ended, failed=failed)
    flaky = old.failed - steady.failed
    text = f"{format_tests(flaky)} had two results on the base: not counted"
    found = report_unknown(text) if flaky or not steady.noticed else Evidence()
    return found + _judge_combined(inputs, faults, moved, steady, new) if steady.noticed else found


def _find_noticed(inputs: CanaryInputs, choose: Callable[[int], list[Fault]]) -> CombinedRun | None:
    """Run the base's suite with as many faults as ``choose`` is asked for. After a useless run try
    other faults, or fewer; None if all runs are useless."""
    faults = choose(MOST_FAULTS)
    for _ in range(_MOST_TRIES):
        run = _run_on_base(inputs, faults)
        if run and run.outcome.noticed and not _is_cut_short(run.outcome, inputs.tests_before):
            return run
        green = run is not None and run.outcome.ended and not run.outcome.red
        # A few faults that nothing notices may hide one another: then even fewer, not others.
        try_others = green and len(faults) == MOST_FAULTS
        number = MOST_FAULTS if try_others else max(len(faults) // _REDUCTION, 1)
        faults = choose(number)
    return None


def _choose_unchanged(inputs: CanaryInputs, most: int) -> list[Fault]:
    """Faults in functions that the change leaves alone."""
    many = choose_far_faults(inputs.code, inputs.rng, most * _CANDIDATES)
    return list(keep_unchanged(inputs.subject.change, inputs.code, many))[:most]


def _leave_out_changed(inputs: CanaryInputs, combined: CombinedRun) -> CombinedRun | None:
    """The base's run with only the faults in functions that the change leaves alone, or with other
    faults."""
    moved = keep_unchanged(inputs.subject.change, inputs.code, combined.faults)
    faults = tuple(fault for fault in combined.faults if fault in moved)
    if faults == combined.faults:
        return combined
    if faults:
        fewer = _run_on_base(inputs, faults)
        if fewer is not None and fewer.outcome.noticed:
            return fewer
    return _find_noticed(inputs, partial(_choose_unchanged, inputs))


def _is_cut_short(outcome: SuiteOutcome, usual_tests: frozenset[str]) -> bool:
    """True if a fault ended the run before many of the usual tests ran."""
    return len(outcome.ran) < len(usual_tests) * _CUT_SHORT


def _list_silent(old: SuiteOutcome, new: SuiteOutcome) -> frozenset[str]:
    return (old.failed & new.ran) - new.failed


def _run_on_base(inputs: CanaryInputs, faults: Sequence[Fault]) -> CombinedRun | None:
    return _run_with_faults(inputs, inputs.subject.base, inputs.before, faults)


def _run_on_change(
    inputs: CanaryInputs, moved: Mapping[Fault, Fault], faults: tuple[Fault, ...]
) -> SuiteOutcome | None:
    """Run the suite on the change, twice if nothing is noticed: the machine may have been too busy.
    None if the faults cannot be planted there."""
    planted = [moved[fault] for fault in faults]
    for _ in range(2):
        seen = _run_with_faults(inputs, inputs.subject.tree, inputs.after, planted)
        if seen is not None and seen.outcome.noticed:
            break
    return seen.outcome if seen is not None and len(seen.faults) == len(faults) else None


def _run_with_faults(
    inputs: CanaryInputs, tree: str, files: TreeFiles, faults: Sequence[Fault]
) -> CombinedRun | None:
    """Run the suite with all these faults in the tree's code, without a switch: tests can tell only
    from the code's behaviour. Faults that a compiler refuses are left out; None if none is left."""
    trial, left = inputs.trial, list(faults)
    for _ in range(MOST_BUILDS):
        if not left:
            return None
        trial.check_out(trial.workbench.build_variant(tree, write_faulty_files(left, files.read)))
        outcome = trial.run(inputs.usual.commands, IN_JOB, inputs.usual.duration_s)
        refused = set(find_refused_faults(left, trial.read_output())) if outcome.red else set()
        if outcome.failed or not refused:
            useless = _is_red_without(inputs, tree, outcome)
            return None if useless else CombinedRun(tuple(left), outcome)
        left = [fault for fault in left if fault not in refused]
    return None


def _is_red_without(inputs: CanaryInputs, tree: str, outcome: SuiteOutcome) -> bool:
    """True if only the exit status is red, and is so without the faults, too."""
    if not (outcome.red and outcome.unknown):
        return False
    trial = inputs.trial
    if tree not in trial.red_without:
        trial.check_out(tree)
        alone = trial.run(inputs.usual.commands, IN_JOB, inputs.usual.duration_s)
        trial.red_without[tree] = alone.red
    return trial.red_without[tree]


def _judge_combined(
    inputs: CanaryInputs,
    faults: tuple[Fault, ...],
    moved: Mapping[Fault, Fault],
    old: SuiteOutcome,
    new: SuiteOutcome | None,
) -> Evidence:
    number = count_faults(len(faults))
    if new is None or not new.ended:
        return fail_unknown(inputs, f"with {number} the suite has no result any more")
    if new.disagrees and not old.disagrees:
        text = f"With {number} {len(new.failed)} tests fail, and the command ends with 0."
        return refuse(inputs.subject, TITLE, "unreliable-report", text)
    if not new.red:
        before = f"before the change {format_tests(old.failed)} noticed"
        text = f"With {number} the suite passes; {before}."
        return refuse(inputs.subject, TITLE, FLAG, text)
    if old.failed & new.ran and not new.failed:
        text = f"With {number} the command fails, but no test is reported as failed."
        return refuse(inputs.subject, TITLE, "unreliable-report", text)
    if (old.failed and not new.failed) or _is_cut_short(new, inputs.usual_tests):
        return fail_unknown(inputs, f"with {number} the suite does not run to its end")
    silent = _list_silent(old, new)
    text = (
        f"{number}: {len(old.failed)} of the suite's tests failed before the change,"
        f" {len(new.failed)} with it"
    )
    found = report_check(TITLE, CheckOutcome.PASSED, text)
    return found + _look_at_silent(inputs, faults, moved, silent) if silent else found


def _look_at_silent(
    inputs: CanaryInputs,
    faults: tuple[Fault, ...],
    moved: Mapping[Fault, Fault],
    silent: frozenset[str],
) -> Evidence:
    """Try each fault alone on the tests that still run, but now pass with the faults on."""
    old, new = (_find_tests(files, silent) for files in (inputs.before, inputs.after))
    trial, subject = inputs.trial, inputs.subject
    planted = plant_singles(trial, subject.base, old, faults, inputs.before)
    reached = planted.list_reached() if planted else []
    found = find_canaries(trial, planted, old, reached, inputs.usual.duration_s)
    if not found.canaries:
        return report_unknown(f"{format_tests(silent)} notice none of them by itself")
    judged = judge_canaries(trial, subject, new, found, moved, inputs.after)
    return judge_singles(inputs, judged)


def _find_tests(files: TreeFiles, names: frozenset[str]) -> list[Test]:
    tests = (test for side in files.tests for test in side.tests)
    return [test for test in tests if any(is_reported_as(name, test) for name in names)]
