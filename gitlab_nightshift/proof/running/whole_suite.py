"""Canaries far from a change, all at once, against the whole suite: this reveals rewritten reports,
forced exit statuses, and tests hidden from the runner."""

import functools
from collections.abc import Callable, Mapping

from gitlab_nightshift.proof.evidence.lab import Evidence
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.canary_judgement import judge_singles
from gitlab_nightshift.proof.running.canary_setting import (
    FLAG,
    TITLE,
    Setting,
    count_faults,
    fail_unknown,
    format_tests,
    refuse,
    tell_unknown,
)
from gitlab_nightshift.proof.running.combined_canaries import (
    CombinedRun,
    Suite,
    is_cut_short,
    keep_steady,
    run_on_base,
    run_with_faults,
)
from gitlab_nightshift.proof.running.fault_choice import choose_far_faults, keep_unchanged
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.reported_names import is_reported_as
from gitlab_nightshift.proof.running.single_canaries import (
    find_canaries,
    judge_canaries,
    plant_singles,
)
from gitlab_nightshift.proof.running.suite_outcome import SuiteOutcome
from gitlab_nightshift.proof.running.tree_files import TreeFiles
from gitlab_nightshift.proof.syntax.single_test import Test
from gitlab_nightshift.records.verdicts import Check, CheckOutcome

MANY = 8
"""Candidates for each wanted function, as the change may edit some."""


def try_combined(setting: Setting, base: BaseCanaries) -> Evidence:
    """Compare the whole suite on the change with that on the base, both with the same faults. A
    lost fault must be noticed on the base again; ``base`` caches its run for other attempts."""
    if not base.tried:
        base.tried = True
        base.combined = _run_on_base(setting, _choose_far)
    if base.combined is None:
        return tell_unknown("no fault was found that the tests of the base notice")
    before = _leave_out_changed(setting, base.combined)
    if before is None:
        return tell_unknown("no fault was found outside of the functions that it edits")
    faults, old = before.faults, before.outcome
    moved = keep_unchanged(setting.subject.change, setting.code, faults)
    new = _run_on_change(setting, moved, faults)
    if new is None or not new.ended or (new.red and not _list_silent(old, new)):
        return _judge_combined(setting, faults, moved, old, new)
    steady = keep_steady(setting.trial, _build_suite(setting), before)
    flaky = old.failed - steady.failed
    text = f"{format_tests(flaky)} had two results on the base: not counted"
    found = tell_unknown(text) if flaky or not steady.noticed else Evidence()
    return found + _judge_combined(setting, faults, moved, steady, new) if steady.noticed else found


def _leave_out_changed(setting: Setting, combined: CombinedRun) -> CombinedRun | None:
    """The base's run with only the faults in functions that the change leaves alone, or with other
    faults."""
    moved = keep_unchanged(setting.subject.change, setting.code, combined.faults)
    faults = tuple(fault for fault in combined.faults if fault in moved)
    if faults == combined.faults:
        return combined
    if faults:
        fewer = run_with_faults(setting.trial, _build_suite(setting), faults)
        if fewer is not None and fewer.outcome.noticed:
            return fewer
    return _run_on_base(setting, _choose_far_unchanged)


def _list_silent(old: SuiteOutcome, new: SuiteOutcome) -> frozenset[str]:
    return (old.failed & new.ran) - new.failed


def _run_on_change(
    setting: Setting, moved: Mapping[Fault, Fault], faults: tuple[Fault, ...]
) -> SuiteOutcome | None:
    """Run the suite on the change, twice if nothing is noticed: the machine may have been too busy.
    None if the faults cannot be planted there."""
    suite = Suite(setting.subject.tree, setting.after, setting.usual)
    moved_faults = [moved[fault] for fault in faults]
    seen = run_with_faults(setting.trial, suite, moved_faults)
    if seen is None or not seen.outcome.noticed:
        seen = run_with_faults(setting.trial, suite, moved_faults)
    return seen.outcome if seen is not None and len(seen.faults) == len(faults) else None


def _build_suite(setting: Setting) -> Suite:
    return Suite(setting.subject.base, setting.before, setting.usual)


def _run_on_base(
    setting: Setting, choose: Callable[[Setting, int], list[Fault]]
) -> CombinedRun | None:
    chosen = functools.partial(choose, setting)
    return run_on_base(setting.trial, _build_suite(setting), chosen, len(setting.tests_before))


def _choose_far(setting: Setting, most: int) -> list[Fault]:
    return choose_far_faults(setting.code, setting.rng, most)


def _choose_far_unchanged(setting: Setting, most: int) -> list[Fault]:
    """Faults in functions that the change leaves alone."""
    many = choose_far_faults(setting.code, setting.rng, most * MANY)
    return list(keep_unchanged(setting.subject.change, setting.code, many))[:most]


def _judge_combined(
    setting: Setting,
    faults: tuple[Fault, ...],
    moved: Mapping[Fault, Fault],
    old: SuiteOutcome,
    new: SuiteOutcome | None,
) -> Evidence:
    number = count_faults(len(faults))
    if new is None or not new.ended:
        return fail_unknown(setting, f"with {number} the suite tells nothing any more")
    if new.disagrees and not old.disagrees:
        text = f"With {number} {len(new.failed)} tests fail, and the command ends with 0."
        return refuse(setting, "unreliable-report", "", text)
    if not new.red:
        before = f"before the change {format_tests(old.failed)} noticed"
        text = f"With {number} the suite passes; {before}."
        return refuse(setting, FLAG, "", text)
    if old.failed & new.ran and not new.failed:
        text = f"With {number} the command fails, and no test is reported to."
        return refuse(setting, "unreliable-report", "", text)
    if (old.failed and not new.failed) or is_cut_short(new, len(setting.usual_tests)):
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
        return tell_unknown(f"{format_tests(silent)} notice none of them by itself")
    judged = judge_canaries(trial, subject, new, found, moved, setting.after)
    return judge_singles(setting, judged)


def _find_tests(files: TreeFiles, names: frozenset[str]) -> list[Test]:
    return [
        test
        for side in files.tests
        for test in side.tests
        if any(is_reported_as(name, test) for name in names)
    ]
