"""Attempts until a change is proven: Implement, then every proof in order of cost, a model last.

Nights, given tasks and delegations share it. The first proof that fails ends an attempt.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus
from gitlab_nightshift.records.events import Note, StepEnded
from gitlab_nightshift.records.handoffs import AnalysisResult, Draft, Verdict
from gitlab_nightshift.records.products import Proposal
from gitlab_nightshift.records.tool_calls import ToolUse
from gitlab_nightshift.records.verdicts import Finding, GatedFile
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.disk_space import is_full_disk
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.stages.work.proof_context import ProofContext, ProofResult
from gitlab_nightshift.stages.work.recording import Recorder
from gitlab_nightshift.stages.work.step_input import FailedAttempt, StepInput, build_step_input
from gitlab_nightshift.stages.work.tool_use import select_commands

SAID_BY_VERIFY = "Verify (an agent) says:"
"""Stands before words that this program has not checked, in whatever quotes why."""

RunBead = Callable[[str, str], BeadResult]
"""Runs a bead by its name, with the evidence so far."""

RunStep = Callable[[str, int, StepInput], BeadResult]
"""Runs a bead by its name, the attempt's number from 1, and what it is told."""


@dataclass(frozen=True)
class ProvenChange:
    """A change that passed everything, fixed as it was then, and what its proofs found."""

    captured: CapturedChange
    verdict: Verdict
    proof: ProofResult
    findings: tuple[Finding, ...]
    gates: tuple[GatedFile, ...] = ()
    symbols: tuple[str, ...] = ()
    digest: str = ""
    verify_tools: ToolUse | None = None

    def build_proposal(
        self, category: str, analysis: AnalysisResult, draft: Draft, *, is_fallback: bool = False
    ) -> Proposal:
        """What a bundle says of it."""
        return Proposal(
            change=self.captured.build_summary(),
            category=category,
            is_fallback=is_fallback,
            analysis=analysis,
            draft=draft,
            verdict=self.verdict,
            commands=self.proof.commands,
            notes=self.proof.notes,
            checks=self.proof.checks,
            findings=self.findings,
            gates=self.gates,
            symbols=self.symbols,
            digest=self.digest,
            verify_tools=self.verify_tools,
        )


def format_step_key(bead: str, category: str, attempt: int) -> str:
    """The name of a bead's section in the job log."""
    return f"{bead}-{category}-{attempt}"


def try_until_proven(
    checkout: Checkout,
    proof: ProofContext,
    analysis: AnalysisResult,
    attempts: int,
    step: RunStep,
    recorder: Recorder,
    failed: Callable[[FailedAttempt], None] = lambda _: None,
    *,
    asked: bool = False,
) -> ProvenChange | FailedAttempt:
    """Try a change so many times at most; each attempt is told what the earlier ones failed with.
    One that fails as an earlier one did is the last, and where somebody ``asked`` for the change
    one that changes nothing: there may be nothing to change.

    The checkout is put back after an attempt that failed, then ``failed`` is called with it; after
    a good one it is left as it is. Raises Stop.
    """
    failures: list[FailedAttempt] = []
    missing: dict[str, None] = {}
    for number in range(1, attempts + 1):
        bead = functools.partial(_run_step, step, number, tuple(failures), missing)
        outcome = try_change(checkout, proof, analysis, bead, recorder)
        if isinstance(outcome, ProvenChange):
            return outcome
        outcome = _with_missing(outcome, missing)
        checkout.restore()
        failed(outcome)
        failures.append(outcome)
        if asked and outcome.unchanged:
            break
        if number < attempts and any(map(outcome.repeats, failures[:-1])):
            proof.work.emit(Note("The same failure again, word for word: no further attempts."))
            break
    return failures[-1]


def _run_step(
    step: RunStep,
    attempt: int,
    failures: Sequence[FailedAttempt],
    missing: dict[str, None],
    bead: str,
    evidence: str,
) -> BeadResult:
    result = step(bead, attempt, build_step_input(failures, evidence))
    missing |= dict.fromkeys(result.missing)
    return result


def _with_missing(failed: FailedAttempt, missing: Iterable[str]) -> FailedAttempt:
    """Name what the sandbox does not have, so that the next attempt need not find it out again."""
    if not (names := ", ".join(missing)):
        return failed
    text = f"Reported by the agent's CLI as not found in the sandbox: {names}."
    return dataclasses.replace(failed, why=f"{failed.why.rstrip()}\n{text}")


def try_change(
    checkout: Checkout,
    proof: ProofContext,
    analysis: AnalysisResult,
    bead: RunBead,
    recorder: Recorder,
) -> ProvenChange | FailedAttempt:
    """Implement and prove one change. The checkout is left as it is: the caller puts it back."""
    try:
        return _run_attempt(checkout, proof, analysis, bead, recorder)
    except (OSError, GitError) as error:
        if not is_full_disk(error):
            raise
        return FailedAttempt(f"The disk was full: {error}.", Code.APPLY_FAILED)


def _run_attempt(
    checkout: Checkout,
    proof: ProofContext,
    analysis: AnalysisResult,
    bead: RunBead,
    recorder: Recorder,
) -> ProvenChange | FailedAttempt:
    implemented = bead("implement", "")
    if implemented.status is BeadStatus.DISK_FULL:
        why = f"Implement failed ({implemented.status}): {implemented.error}"
        return _fail_attempt(proof, implemented, why, Code.APPLY_FAILED)
    captured = checkout.capture()
    recorder.keep_change(implemented, captured, checkout.repository)
    outcome = _prove_change(checkout, proof, analysis, bead, implemented, captured)
    if isinstance(outcome, ProvenChange):
        return outcome
    unchanged = implemented.ok and captured.empty and not captured.refusals
    return dataclasses.replace(
        outcome,
        patch=captured.patch,
        refused=implemented.denied,
        unchanged=unchanged,
        said=implemented.said,
    )


def _prove_change(
    checkout: Checkout,
    proof: ProofContext,
    analysis: AnalysisResult,
    bead: RunBead,
    implemented: BeadResult,
    captured: CapturedChange,
) -> ProvenChange | FailedAttempt:
    if why := _find_change_problem(implemented, captured):
        return _fail_attempt(proof, implemented, why, Code.APPLY_FAILED)
    from gitlab_nightshift.stages.work.proofs import build_subject, look, prove

    subject = build_subject(checkout, proof, implemented.category, analysis, captured)
    looked = look(proof, captured, subject)
    if looked.why:
        return _fail_attempt(proof, implemented, looked.why, Code.POLICY_DENY)
    _emit_step_end(proof, implemented, _describe_size(captured))
    proof.began(implemented.attempt)
    name = f"{implemented.category}-{implemented.attempt}"
    result = prove(checkout, proof, captured, subject, name, looked.held)
    if result.why:
        return FailedAttempt(result.why)
    checkout.apply_change(captured)
    verified = bead("verify", result.evidence)
    if why := _find_verify_problem(verified):
        return _fail_attempt(proof, verified, why)
    _emit_step_end(proof, verified, "passed")
    assert isinstance(verified.handoff, Verdict)
    warnings = tuple(f for f in (*looked.findings, *result.findings) if f.level == "warn")
    ran = select_commands(verified.tools)
    known_by = looked.symbols, looked.digest
    return ProvenChange(
        captured, verified.handoff, result, warnings, looked.gates, *known_by, verify_tools=ran
    )


def _fail_attempt(
    proof: ProofContext, result: BeadResult, why: str, code: Code = Code.TEST_FAILED
) -> FailedAttempt:
    _emit_step_end(proof, result, why.strip().partition("\n")[0], ok=False)
    return FailedAttempt(why, code)


def _emit_step_end(proof: ProofContext, result: BeadResult, text: str, *, ok: bool = True) -> None:
    key = format_step_key(result.bead, result.category, result.attempt)
    proof.work.emit(StepEnded(key, ok, text))


def _describe_size(captured: CapturedChange) -> str:
    change = captured.build_summary()
    files = "1 file" if len(change.files) == 1 else f"{len(change.files)} files"
    return f"{files}, +{change.added} -{change.deleted}"


def _find_change_problem(implemented: BeadResult, captured: CapturedChange) -> str:
    if not implemented.ok:
        return f"Implement failed ({implemented.status}): {implemented.error}"
    if captured.refusals:
        return "\n".join(f"{refusal}." for refusal in captured.refusals)
    return "Implement changed nothing." if captured.empty else ""


def _find_verify_problem(verified: BeadResult) -> str:
    if not isinstance(verified.handoff, Verdict):
        return f"Verify failed ({verified.status}): {verified.error}"
    if not verified.handoff.passed:
        said = verified.handoff.error_details.strip()
        return f"{SAID_BY_VERIFY} {said}" if said else "Verify did not pass the change."
    return ""
