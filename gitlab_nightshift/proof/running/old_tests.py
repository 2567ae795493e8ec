"""Runs the old tests on the changed product code: if behaviour must stay they must pass; otherwise
those that fail show what the change redefines."""

import shlex
from collections.abc import Sequence

from gitlab_nightshift.proof.evidence.workbench import (
    Evidence,
    EvidenceSubject,
    format_names,
    refuse,
    report_check,
)
from gitlab_nightshift.proof.running.new_tests import NO_PROOF
from gitlab_nightshift.proof.running.single_canaries import list_focused
from gitlab_nightshift.proof.running.trial import SuiteOutcome, Trial
from gitlab_nightshift.proof.syntax.collected_tests import Test
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.repository.difference import ChangedFile

TITLE = "The tests as they were"
STRICT = frozenset(("refactoring", "performance", "docs"))
"""Categories of changes that must not change behaviour."""


def run_old_tests(subject: EvidenceSubject, trial: Trial) -> Evidence:
    """If a change touches tests, too: run the old tests on the new product code."""
    files = [
        file
        for file in subject.change.files
        if read_sides(file)[0].is_test_file and file.status in "MRD"
    ]
    strict = subject.context.category in STRICT
    # Without an old product (None) the change has only tests, which may demand anything else.
    if (
        not files
        or not trial.workbench.commands
        or not (strict or trial.build_old_product(subject))
    ):
        return Evidence()
    old_files: dict[str, bytes | None] = {f.raw_path: None for f in files if f.status == "R"}
    old_files |= {file.raw_old_path: file.old for file in files}
    trial.check_out(trial.workbench.build_variant(subject.tree, old_files))
    if strict:
        return _judge_strictly(subject, trial)
    outcome = _run_changed(trial, _list_changed(files))
    return _describe_redefined(trial, outcome) if outcome and outcome.red else Evidence()


def _judge_strictly(subject: EvidenceSubject, trial: Trial) -> Evidence:
    outcome = trial.run(trial.workbench.commands, {})
    if outcome.red and outcome.ended:  # once more, as it may be flaky
        outcome = trial.run(trial.workbench.commands, {})
    if not outcome.red:
        text = "they pass on the changed product code"
        return report_check(TITLE, CheckOutcome.PASSED, text)
    if not outcome.ended or NO_PROOF.search(trial.read_output()):
        return _describe_redefined(trial, outcome)
    text = f"{_format_failed(outcome)} fail on the changed product code"
    detail = f"{text}: it behaves differently."
    return refuse(subject, TITLE, "old-tests-fail", text, detail=detail)


def _list_changed(files: Sequence[ChangedFile]) -> list[Test]:
    """Tests whose text has changed or gone."""
    found: list[Test] = []
    for before, after in map(read_sides, files):
        kept = {test.node.text for test in after.tests}
        found += [test for test in before.tests if test.node.text not in kept]
    return found


def _run_changed(trial: Trial, tests: Sequence[Test]) -> SuiteOutcome | None:
    """Run these tests alone; None if none of them can run alone."""
    for focused in list_focused(trial, tests) if tests else ():
        outcome = trial.run([shlex.join(focused.argv)], {})
        if outcome.ran or focused.count(trial.read_output()):
            return outcome
    return None


def _describe_redefined(trial: Trial, outcome: SuiteOutcome) -> Evidence:
    if not outcome.ended:
        return report_check(TITLE, CheckOutcome.NOT_CHECKED, "they did not end")
    text = f"this change redefines what {_format_failed(outcome)} demand"
    if NO_PROOF.search(trial.read_output()):
        text += ", or they use names that no longer exist"
    return report_check(TITLE, CheckOutcome.UNDECIDED, text)


def _format_failed(outcome: SuiteOutcome) -> str:
    return format_names(sorted(outcome.failed), "some of them")
