"""Canaries: faults in product code that the untouched tests notice must still be noticed.
``faults.py`` lists them, ``switches.py`` writes them.

This catches what no rule describes: tests that were deleted, skipped, emptied or made to pass,
helpers that swallow failures, equality that is always true, forced exit statuses, hooks that
rewrite reports.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gitlab_nightshift.proof.evidence.workbench import Evidence, EvidenceSubject, Workbench
from gitlab_nightshift.proof.executed_code import changes_code
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.report_readers import Collection
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.canary_judgement import (
    CanaryInputs,
    collect_inputs,
    judge_noticed,
    judge_singles,
    report_unknown,
)
from gitlab_nightshift.proof.running.fault_choice import (
    build_aim,
    choose_near_faults,
    keep_unchanged,
    take_in_turn,
)
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.single_canaries import (
    MOST_TRIES,
    find_canaries,
    judge_canaries,
    plant_singles,
)
from gitlab_nightshift.proof.running.text_canaries import (
    find_text_canaries,
    is_unsupported_code,
    judge_text_canaries,
)
from gitlab_nightshift.proof.running.touched_tests import TouchedTests, find_touched_tests
from gitlab_nightshift.proof.running.trial import PlantedTree, is_reported_as
from gitlab_nightshift.proof.running.whole_suite import try_combined
from gitlab_nightshift.proof.syntax.collected_tests import Test

MOST_PLANTED = 300  # faults in one build; tests reach only a few of them
UNSUPPORTED = "in code of an unsupported language"


def try_canaries(
    subject: EvidenceSubject,
    workbench: Workbench,
    before: Sequence[Collection],
    runs: Sequence[CommandRun],
    base: BaseCanaries,
) -> Evidence:
    """Compare the tests after a change with those before it, by the faults that these noticed.

    ``runs`` are the commands on the change, which passed, ``before`` the tests of the base. Does
    not restore the checkout.
    """
    if not workbench.commands or not changes_code(subject.change):
        return Evidence()
    if base.unable:
        return report_unknown(base.unable)
    inputs = collect_inputs(subject, workbench, before, runs)
    found = Evidence()
    unsupported = any(is_unsupported_code(file.raw_path) for file in subject.change.files)
    if unsupported or not inputs.before.products:
        found += _try_texts(inputs, base)
    # All faults at once show hooks, settings and forced exit statuses. They mask one another, so
    # that they miss what single ones near the change find: 3 of 13 cheats in a trial.
    if inputs.before.products:
        found += try_combined(inputs, base)
    for touched in find_touched_tests(subject.change, inputs.before, inputs.after):
        found += _try_near(inputs, touched)
    return found


def _try_texts(inputs: CanaryInputs, base: BaseCanaries) -> Evidence:
    subject, trial, usual = inputs.subject, inputs.trial, inputs.usual
    if base.texts is None:
        base.texts = find_text_canaries(trial, subject.base, inputs.before, inputs.rng, usual)
    after = inputs.after
    judged = judge_text_canaries(trial, subject, base.texts, inputs.before, after, usual)
    if not judged:
        why = f"none {UNSUPPORTED} that the change leaves alone makes the commands fail"
        return report_unknown(why)
    return judge_noticed(inputs, judged, UNSUPPORTED)


def _try_near(inputs: CanaryInputs, touched: TouchedTests) -> Evidence:
    subject, trial = inputs.subject, inputs.trial
    touched = replace(touched, old=_keep_reported(touched.old, inputs.tests_before))
    if not touched.old:
        return report_unknown(f"the commands run none of the touched {touched.language} tests")
    aim = build_aim(touched.old, touched.named, inputs.before.tests, touched.edited)
    chosen = choose_near_faults(inputs.code, aim, inputs.rng, MOST_PLANTED)
    moved = keep_unchanged(subject.change, inputs.code, chosen)
    base = plant_singles(trial, subject.base, touched.old, list(moved), inputs.before)
    reached = base.list_reached() if base else []
    # Tests that no command reports would run only by name, such as those of a file that no runner
    # collects any more.
    usual = inputs.usual_tests
    tests = _keep_reported(touched.new, usual) if usual else touched.new or touched.old
    # The change with all faults that the base's tests reached, unless all of them are tried anyway:
    # those that tests no longer reach are tried first.
    new = None
    if base and base.reached is not None and len(reached) > MOST_TRIES:
        faults = [moved[fault] for fault in reached]
        new = plant_singles(trial, subject.tree, tests, faults, inputs.after)
    tried = take_in_turn([_list_unreached_now(reached, moved, new), reached])
    usual_s = inputs.usual.duration_s
    found = find_canaries(trial, base, touched.old, list(dict.fromkeys(tried)), usual_s)
    if not found.canaries:
        return report_unknown(f"none that the touched {touched.language} tests notice was found")
    judged = judge_canaries(trial, subject, tests, found, moved, inputs.after, new)
    return judge_singles(inputs, judged)


def _list_unreached_now(
    reached: Sequence[Fault], moved: Mapping[Fault, Fault], new: PlantedTree | None
) -> list[Fault]:
    """Faults that the tests reached before, but not with the change."""
    now = new.reached if new else None
    return [fault for fault in reached if moved[fault] not in now] if now is not None else []


def _keep_reported(tests: Sequence[Test], names: frozenset[str]) -> tuple[Test, ...]:
    """The tests that are reported by one of these names; all where nothing is reported."""
    return tuple(t for t in tests if not names or any(is_reported_as(n, t) for n in names))
