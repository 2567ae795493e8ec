"""Canaries: faults planted in product code. Those that the tests noticed before a change must still
be noticed after it. ``fault_kinds.py`` lists the faults, ``switches.py`` writes them into code.

Canaries also catch what no rule of the red flags describes: any way to delete, skip or empty tests
or to make them pass, helpers that swallow failures, equality that is always true, forced exit
statuses, hooks that rewrite reports.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from gitlab_nightshift.proof.evidence.evidence_records import (
    Evidence,
    EvidenceSubject,
    refuse,
    report_check,
)
from gitlab_nightshift.proof.proof_commands import CommandRun
from gitlab_nightshift.proof.reports.report_readers import CollectedTests
from gitlab_nightshift.proof.reviewed_change import changes_code
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries, CombinedRun
from gitlab_nightshift.proof.running.fault_choice import (
    build_aim,
    choose_far_faults,
    choose_near_faults,
    find_in_change,
    take_in_turn,
)
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.running.single_canaries import (
    FLAG,
    MOST_TRIES,
    TITLE,
    CanaryInputs,
    collect_inputs,
    fail_unknown,
    find_canaries,
    format_tests,
    judge_canaries,
    judge_noticed,
    judge_singles,
    plant_singles,
    report_unknown,
)
from gitlab_nightshift.proof.running.switches import find_refused_faults
from gitlab_nightshift.proof.running.text_canaries import (
    find_text_canaries,
    is_unsupported_code,
    judge_text_canaries,
)
from gitlab_nightshift.proof.running.touched_tests import TouchedTests, find_touched_tests
from gitlab_nightshift.proof.running.trial import (
    MOST_BUILDS,
    PlantedTree,
    SuiteOutcome,
    TrialCheckout,
    is_any_reported,
)
from gitlab_nightshift.proof.syntax.definitions import Test
from gitlab_nightshift.records.verdicts import CheckOutcome

MOST_PLANTED = 300  # faults in one build; tests reach only a few of them
UNSUPPORTED = "in code of an unsupported language"


def try_canaries(
    subject: EvidenceSubject,
    trial_checkout: TrialCheckout,
    before: Sequence[CollectedTests],
    runs: Sequence[CommandRun],
    base: BaseCanaries,
) -> Evidence:
    """Compare the tests after a change with those before it, by the faults that they notice.

    ``before`` are the tests that ran on the base, ``runs`` the commands on the change, which
    passed. ``base`` caches what was found on the base. Does not restore the checkout.
    """
    if not trial_checkout.commands or not changes_code(subject.change):
        return Evidence()
    if base.unable:
        return report_unknown(base.unable)
    inputs = collect_inputs(subject, trial_checkout, before, runs)
    evidence = Evidence()
    has_unsupported = any(is_unsupported_code(file.raw_path) for file in subject.change.files)
    if has_unsupported or not inputs.before.products:
        evidence += _try_texts(inputs, base)
    # All faults at once reveal hooks, settings and forced exit statuses. But they mask one another:
    # in an experiment they missed 3 of 13 cheats that single faults near the change reveal.
    if inputs.before.products:
        evidence += try_combined(inputs, base)
    for touched in find_touched_tests(subject.change, inputs.before, inputs.after):
        evidence += _try_near(inputs, touched)
    return evidence


def _try_texts(inputs: CanaryInputs, base: BaseCanaries) -> Evidence:
    if base.texts is None:
        base.texts = find_text_canaries(inputs)
    judged = judge_text_canaries(inputs, base.texts)
    if not judged:
        why = f"no fault {UNSUPPORTED}, outside of the change, makes the commands fail"
        return report_unknown(why)
    return judge_noticed(inputs, judged, UNSUPPORTED)


def _try_near(inputs: CanaryInputs, touched: TouchedTests) -> Evidence:
    subject, trial = inputs.subject, inputs.trial
    touched = replace(touched, old=_keep_reported(touched.old, inputs.tests_before))
    if not touched.old:
        return report_unknown(f"the commands run none of the touched {touched.language} tests")
    aim = build_aim(touched.old, touched.named, inputs.before.tests, touched.edited)
    chosen = choose_near_faults(inputs.code, aim, inputs.rng, MOST_PLANTED)
    in_change = find_in_change(subject.change, inputs.code, chosen)
    planted_base = plant_singles(trial, subject.base, touched.old, list(in_change))
    reached = planted_base.list_reached() if planted_base else []
    # Only tests that a command reports: one in a file that no runner collects any more would still
    # run by its name. Without any report: those of the base, if the change has none.
    names = inputs.reported_tests
    tests = _keep_reported(touched.new, names) if names else touched.new or touched.old
    # Faults that the tests no longer reach are tried first. To find them, all faults that the
    # base's tests reached are planted in the change, unless all of them will be tried anyway.
    planted_change = None
    if planted_base and planted_base.reached is not None and len(reached) > MOST_TRIES:
        faults = [in_change[fault] for fault in reached]
        planted_change = plant_singles(trial, subject.tree, tests, faults)
    unreached = _list_unreached_now(reached, in_change, planted_change)
    faults = list(dict.fromkeys(take_in_turn([unreached, reached])))
    base = find_canaries(trial, planted_base, touched.old, faults, inputs.faultless_run.duration_s)
    if not base.canaries:
        return report_unknown(f"none that the touched {touched.language} tests notice was found")
    judged = judge_canaries(trial, subject, tests, base, in_change, planted_change)
    return judge_singles(inputs, judged)


def _list_unreached_now(
    reached: Sequence[Fault], in_change: Mapping[Fault, Fault], planted_change: PlantedTree | None
) -> list[Fault]:
    """Faults that the tests reached before, but not with the change."""
    now = planted_change.reached if planted_change else None
    return [fault for fault in reached if in_change[fault] not in now] if now is not None else []


def _keep_reported(tests: Sequence[Test], names: frozenset[str]) -> tuple[Test, ...]:
    """The tests that are reported by one of these names; all of them if there are no names."""
    return tuple(test for test in tests if not names or is_any_reported(names, [test]))


# --- the whole suite, with all faults at once -----------------------------------------------------


MOST_FAULTS = 5
"""Faults at once; with many more, most tests end in exceptions, whatever they compare."""
_MOST_COMBINED_RUNS = 3
_DIVISOR = 4  # after a useless run, a quarter as many faults are drawn, or as many others
_CUT_SHORT = 0.5  # share of the tests; if fewer ran, a fault ended the run
_CANDIDATES_PER_FAULT = 8  # the change may edit functions of some


def try_combined(inputs: CanaryInputs, base: BaseCanaries) -> Evidence:
    """Compare the whole suite on the change with the suite on the base, both with the same faults
    at once. If the change's tests miss something, the run on the base, which ``base`` caches for
    all attempts, has to be confirmed by a second one."""
    if not base.has_combined:
        base.has_combined = True
        base.combined = _find_base_run(inputs, partial(choose_far_faults, inputs.code, inputs.rng))
    if base.combined is None:
        return report_unknown("no fault was found that the tests of the base notice")
    base_run = _drop_changed(inputs, base.combined)
    if base_run is None:
        return report_unknown("no fault was found outside of the functions that the change edits")
    faults, old = base_run.faults, base_run.outcome
    in_change = find_in_change(inputs.subject.change, inputs.code, faults)
    new = _run_on_change(inputs, in_change, faults)
    if new is None or not new.ended or (new.red and not _list_silenced(old, new)):
        return _judge_combined(inputs, faults, in_change, old, new)
    # Again: tests with another result now are flaky, and do not count.
    second_run = _run_on_base(inputs, faults)
    second = second_run.outcome if second_run else SuiteOutcome(red=False)
    failed = old.failed & second.failed
    steady = replace(old, red=second.red, ended=second.ended, failed=failed)
    flaky = old.failed - steady.failed
    text = f"{format_tests(flaky)} had two results on the base: not counted"
    evidence = report_unknown(text) if flaky or not steady.noticed else Evidence()
    if not steady.noticed:
        return evidence
    return evidence + _judge_combined(inputs, faults, in_change, steady, new)


def _find_base_run(inputs: CanaryInputs, draw: Callable[[int], list[Fault]]) -> CombinedRun | None:
    """A run of the base's suite that notices faults; ``draw`` chooses at most so many. After a
    useless run, others are drawn, or fewer. None if all runs are useless."""
    faults = draw(MOST_FAULTS)
    for _ in range(_MOST_COMBINED_RUNS):
        run = _run_on_base(inputs, faults)
        if run and run.outcome.noticed and not _is_cut_short(run.outcome, inputs.tests_before):
            return run
        is_green = run is not None and run.outcome.ended and not run.outcome.red
        # If nothing notices that many faults, draw others. But a few may hide one another, and one
        # may have ended the run: then draw fewer.
        try_others = is_green and len(faults) == MOST_FAULTS
        faults = draw(MOST_FAULTS if try_others else max(len(faults) // _DIVISOR, 1))
    return None


def _choose_unchanged(inputs: CanaryInputs, most: int) -> list[Fault]:
    """Faults in functions that the change leaves alone."""
    many = choose_far_faults(inputs.code, inputs.rng, most * _CANDIDATES_PER_FAULT)
    return list(find_in_change(inputs.subject.change, inputs.code, many))[:most]


def _drop_changed(inputs: CanaryInputs, combined: CombinedRun) -> CombinedRun | None:
    """A run of the base's suite only with faults in functions that the change leaves alone: with
    those of ``combined``, or, if nothing notices these, with others. None without such a run."""
    in_change = find_in_change(inputs.subject.change, inputs.code, combined.faults)
    faults = tuple(fault for fault in combined.faults if fault in in_change)
    if faults == combined.faults:
        return combined
    if faults:
        fewer = _run_on_base(inputs, faults)
        if fewer is not None and fewer.outcome.noticed:
            return fewer
    return _find_base_run(inputs, partial(_choose_unchanged, inputs))


def _is_cut_short(outcome: SuiteOutcome, usual_tests: frozenset[str]) -> bool:
    """True if less than half of the tests that run without faults ran: a fault ended the run."""
    return len(outcome.ran) < len(usual_tests) * _CUT_SHORT


def _list_silenced(old: SuiteOutcome, new: SuiteOutcome) -> frozenset[str]:
    """Tests that failed with the faults before the change, and pass with them now."""
    return (old.failed & new.ran) - new.failed


def _run_on_base(inputs: CanaryInputs, faults: Sequence[Fault]) -> CombinedRun | None:
    return _run_with_faults(inputs, inputs.subject.base, faults)


def _run_on_change(
    inputs: CanaryInputs, in_change: Mapping[Fault, Fault], faults: tuple[Fault, ...]
) -> SuiteOutcome | None:
    """Run the suite on the change with the faults, and once more if nothing is noticed: the machine
    may have been too busy. None if not all faults can be planted, or if the run proves nothing."""
    changed_faults = [in_change[fault] for fault in faults]
    for _ in range(2):
        run = _run_with_faults(inputs, inputs.subject.tree, changed_faults)
        if run is not None and run.outcome.noticed:
            break
    return run.outcome if run is not None and len(run.faults) == len(faults) else None


def _run_with_faults(
    inputs: CanaryInputs, tree: str, faults: Sequence[Fault]
) -> CombinedRun | None:
    """Run the suite with all these faults in the tree's code, without switches: tests can notice
    them only by the code's behaviour. Faults that a compiler refuses are left out. None if no fault
    is left, after ``MOST_BUILDS`` builds, or if the run proves nothing, being red without faults,
    too."""
    trial, remaining = inputs.trial, list(faults)
    for _ in range(MOST_BUILDS):
        if not remaining:
            return None
        trial.check_out(trial.checkout.build_faulty(tree, remaining))
        outcome = inputs.run_suite()
        refused = set(find_refused_faults(remaining, trial.read_output())) if outcome.red else set()
        if outcome.failed or not refused:
            proves_nothing = _is_red_without_faults(inputs, tree, outcome)
            return None if proves_nothing else CombinedRun(tuple(remaining), outcome)
        remaining = [fault for fault in remaining if fault not in refused]
    return None


def _is_red_without_faults(inputs: CanaryInputs, tree: str, outcome: SuiteOutcome) -> bool:
    """True if a report is missing, and the commands exit with an error even without the faults."""
    if not (outcome.red and outcome.unknown):
        return False
    trial = inputs.trial
    if tree not in trial.red_without:
        trial.check_out(tree)
        trial.red_without[tree] = inputs.run_suite().red
    return trial.red_without[tree]


def _judge_combined(
    inputs: CanaryInputs,
    faults: tuple[Fault, ...],
    in_change: Mapping[Fault, Fault],
    old: SuiteOutcome,
    new: SuiteOutcome | None,
) -> Evidence:
    planted = f"{len(faults)} planted faults at once" if len(faults) > 1 else "a planted fault"
    if new is None or not new.ended:
        return fail_unknown(inputs, f"with {planted} the suite has no result any more")
    if new.disagrees and not old.disagrees:
        text = f"With {planted} {len(new.failed)} tests fail, and the command ends with 0."
        return refuse(inputs.subject, TITLE, "unreliable-report", text)
    if not new.red:
        before = f"before the change {format_tests(old.failed)} noticed"
        text = f"With {planted} the suite passes; {before}."
        return refuse(inputs.subject, TITLE, FLAG, text)
    if old.failed & new.ran and not new.failed:
        text = f"With {planted} the command fails, but no test is reported as failed."
        return refuse(inputs.subject, TITLE, "unreliable-report", text)
    if (old.failed and not new.failed) or _is_cut_short(new, inputs.reported_tests):
        return fail_unknown(inputs, f"with {planted} the suite does not run to its end")
    silenced = _list_silenced(old, new)
    text = (
        f"{planted}: {len(old.failed)} of the suite's tests failed before the change,"
        f" {len(new.failed)} with it"
    )
    evidence = report_check(TITLE, CheckOutcome.PASSED, text)
    return evidence + _try_silenced(inputs, faults, in_change, silenced) if silenced else evidence


def _try_silenced(
    inputs: CanaryInputs,
    faults: tuple[Fault, ...],
    in_change: Mapping[Fault, Fault],
    silenced: frozenset[str],
) -> Evidence:
    """Try each fault alone on the ``silenced`` tests, which no longer fail with the faults."""
    old, new = (
        [test for side in files.tests for test in side.tests if is_any_reported(silenced, [test])]
        for files in (inputs.before, inputs.after)
    )
    trial, subject = inputs.trial, inputs.subject
    planted = plant_singles(trial, subject.base, old, faults)
    reached = planted.list_reached() if planted else []
    base = find_canaries(trial, planted, old, reached, inputs.faultless_run.duration_s)
    if not base.canaries:
        return report_unknown(f"{format_tests(silenced)} notice none of them by itself")
    judged = judge_canaries(trial, subject, new, base, in_change)
    return judge_singles(inputs, judged)
