"""Proves a change: by red flags, by the commands, and by evidence from running the tests."""

import functools
from collections.abc import Iterable

from gitlab_nightshift.policy.change_rules import ENFORCED, find_violations
from gitlab_nightshift.policy.repeated_ideas import describe_repetition, find_repeated_change
from gitlab_nightshift.policy.write_gate import list_gated_files
from gitlab_nightshift.proof.evidence.collected_runs import TITLE as TESTS_THAT_RAN
from gitlab_nightshift.proof.evidence.evidence_records import (
    Evidence,
    EvidenceSubject,
    find_flaky_commands,
)
from gitlab_nightshift.proof.proof_commands import CommandRun, format_failure, run_and_collect
from gitlab_nightshift.proof.reading import find_red_flags
from gitlab_nightshift.proof.reading.touched_files import find_changed_settings
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.proof.reviewed_change import (
    Context,
    changes_code,
    compute_digest,
    list_changed_symbols,
    read_change,
)
from gitlab_nightshift.proof.running.gathering import gather_evidence, is_refutable
from gitlab_nightshift.proof.running.trial import TrialCheckout, compute_deadline
from gitlab_nightshift.records.bead_results import AnalysisResult
from gitlab_nightshift.records.events import Note, StepEnded, StepStarted
from gitlab_nightshift.records.verdicts import CheckOutcome, Finding
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.stages.work.baseline import ProofContext, ProofResult
from gitlab_nightshift.stages.work.bead_prompt import format_evidence
from gitlab_nightshift.stages.work.work_context import NOTHING_TO_RUN


def build_subject(
    checkout: Checkout,
    proof: ProofContext,
    category: str,
    analysis: AnalysisResult,
    captured: CapturedChange,
) -> EvidenceSubject:
    """The change to judge, with its base, its context, and what Analyze promised of it."""
    selected = analysis.selected
    context = Context(
        settings=proof.work.settings,
        category=category,
        selected=tuple(selected.files) if selected else (),
        recent_files=proof.recent_files,
        ci_config=proof.work.job.ci_config_path,
    )
    change = read_change(checkout.repository, checkout.base_sha, captured.tree_id)
    claim = f"{selected.description}\n{selected.rationale}" if selected else ""
    return EvidenceSubject(checkout.base_sha, captured.tree_id, change, context, claim)


def check_without_running(
    proof: ProofContext, captured: CapturedChange, subject: EvidenceSubject
) -> ProofResult:
    """Check that the change is allowed, repeats no known merge request, and shows no red flag."""
    size, settings, ci_files = captured.size, proof.work.settings, proof.ci_files
    ci_config = proof.work.job.ci_config_path
    tool_settings = find_changed_settings(subject.change)
    violations = find_violations(
        size, tool_settings, settings, proof.recent_files, ci_config, ci_files
    )
    findings = find_red_flags(subject.change, subject.context)
    # Tests that pass may refute a finding; on a red baseline they prove nothing.
    can_refute = proof.baseline.commands and not proof.baseline.red
    undecided = tuple(filter(is_refutable, findings)) if can_refute else ()
    findings = tuple(finding for finding in findings if finding not in undecided)
    # ``find_violations`` has judged the flags in ENFORCED.
    failing = _list_failing(f for f in findings if f.name not in ENFORCED)
    symbols, digest = list_changed_symbols(subject.change), compute_digest(subject.change)
    category = subject.context.category
    repeated = find_repeated_change(category, size.files, symbols, digest, proof.known_ideas)
    unwanted = [f"This idea is not wanted: {describe_repetition(repeated)}."] if repeated else []
    return ProofResult(
        "\n".join((*unwanted, *violations, *failing)),
        findings=findings,
        undecided=undecided,
        gates=list_gated_files(size, settings, ci_config, ci_files),
        symbols=symbols,
        digest=digest,
    )


def prove(
    checkout: Checkout,
    proof: ProofContext,
    captured: CapturedChange,
    subject: EvidenceSubject,
    suffix: str,
    undecided: tuple[Finding, ...] = (),
) -> ProofResult:
    """Restore the checkout, from which the change was just captured, apply only the change, run the
    commands, then gather evidence.

    ``suffix`` ends the names of steps and logs; ``undecided`` are findings that running may refute.
    """
    try:
        unrestored = checkout.apply_change(captured, unchanged=True)
        runs = _run_commands(checkout, proof, captured, f"checks-{suffix}")
        results = tuple(run.result for run in runs)
        failed = format_failure(proof.runner, results, f"checks-{suffix}")
        if failed and not proof.baseline.red:
            return ProofResult(failed, results)
        evidence = _gather_evidence(checkout, proof, subject, runs, f"evidence-{suffix}", undecided)
        notes = (_describe_unrestored(unrestored),) if unrestored else ()
        for note in notes:
            proof.work.emit(Note(note, warning=True))
        findings = (*find_flaky_commands(results, subject.context), *evidence.findings)
        checks = (*proof.baseline.checks, *evidence.checks)
        failing = "\n".join(_list_failing(findings))
        why = failing or _find_missing_proof(proof, subject, runs, evidence)
        tails = [proof.runner.read_tail(f"checks-{suffix}-{n}") for n in range(1, len(results) + 1)]
        text = format_evidence(results, tails, (*checks, *notes, *findings))
        return ProofResult(why, results, notes, checks, findings, evidence=text)
    finally:
        proof.runner.renew()  # the change's code has written to the commands' HOME and TMPDIR


def _find_missing_proof(
    proof: ProofContext, subject: EvidenceSubject, runs: tuple[CommandRun, ...], evidence: Evidence
) -> str:
    """Why nothing that ran proves the change's code; "" if something does, or none is needed."""
    # That the same tests ran as on the base does not show that one of them runs the changed code.
    passed = any(
        check.outcome is CheckOutcome.PASSED and check.title != TESTS_THAT_RAN
        for check in evidence.checks
    )
    ran = any(run.result.ok and not run.ran_nothing for run in runs)
    if passed or ran or proof.baseline.no_test_requested or not changes_code(subject.change):
        return ""
    reason = "no command passed on it" if proof.baseline.commands else NOTHING_TO_RUN
    return (
        f"Nothing that the program ran proves this code: {reason}. Without proof, only comments and"
        " documents pass."
    )


def _list_failing(findings: Iterable[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.level == "fail"]


def _run_commands(
    checkout: Checkout, proof: ProofContext, captured: CapturedChange, name: str
) -> tuple[CommandRun, ...]:
    commands = proof.baseline.commands
    if not commands:
        return ()
    proof.work.emit(StepStarted(name, "The project's own tests on the change"))
    read = build_text_reader(checkout.repository, checkout.base_sha)
    apply_change = functools.partial(checkout.apply_change, captured)
    runs = run_and_collect(proof.runner, commands, name, apply_change, read)
    passed = sum(run.result.ok for run in runs)
    text = f"{passed} of {len(commands)} commands passed"
    proof.work.emit(StepEnded(name, passed == len(commands), text))
    return runs


def _gather_evidence(
    checkout: Checkout,
    proof: ProofContext,
    subject: EvidenceSubject,
    runs: tuple[CommandRun, ...],
    name: str,
    undecided: tuple[Finding, ...],
) -> Evidence:
    """Gather what further runs show: of planted faults, of the tests that ran, of new tests without
    the change, and more for some categories."""
    proof.work.emit(StepStarted(name, "What running the tests shows"))
    usual_s = sum(result.duration_s for result in proof.baseline.results)
    left_s = proof.runner.limits().timeout_s
    deadline = compute_deadline(proof.work.settings.proof_time, usual_s, left_s)
    passing = tuple(run.result.command for run in runs if run.result.ok)
    trial_checkout = TrialCheckout(checkout, proof.runner, passing, name, deadline)
    on_base = proof.baseline.collections
    evidence = gather_evidence(subject, trial_checkout, on_base, runs, proof.canaries, undecided)
    for check in evidence.checks:
        proof.work.emit(Note(f"{check.title}: {check.detail}"))
    failing = _list_failing(evidence.findings)
    measured = ", ".join(check.detail.partition("; ")[0] for check in evidence.checks)
    text = failing[0] if failing else measured or "nothing that could be measured"
    proof.work.emit(StepEnded(name, not failing, text))
    return evidence


def _describe_unrestored(paths: tuple[str, ...]) -> str:
    names = ", ".join(paths[:5]) + (" …" if len(paths) > 5 else "")
    return (
        f"{len(paths)} files are not what they were before the night and could not be restored"
        f" ({names}): commands that depend on them prove nothing."
    )
