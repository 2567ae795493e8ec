"""Attempts to make a proven change: Implement, then every proof, cheapest first, a model last.

Shared by nights, given tasks and delegations. The first proof that fails ends an attempt.
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
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.disk_space import is_full_disk
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.stages.work.proof_context import ProofContext, ProofResult
from gitlab_nightshift.stages.work.recording import Recorder
from gitlab_nightshift.stages.work.step_input import FailedAttempt, StepInput, build_step_input
from gitlab_nightshift.stages.work.tool_use import select_commands
from gitlab_nightshift.text.printable_text import count_words

VERIFY_PREFIX = "Verify (an agent) says:"
"""Prefix for unverified text from Verify."""

RunBead = Callable[[str, str], BeadResult]
"""Runs a bead by its name, with the evidence so far."""

RunStep = Callable[[str, int, StepInput], BeadResult]
"""Runs a bead by its name, the attempt's number from 1, and its input."""


@dataclass(frozen=True)
class ProvenChange:
    """A change that passed every proof, as captured then; of the findings, those to report."""

    captured: CapturedChange
    verdict: Verdict
    proof: ProofResult
    verify_tools: ToolUse | None = None

    def build_proposal(
        self, category: str, analysis: AnalysisResult, draft: Draft, *, is_fallback: bool = False
    ) -> Proposal:
        """The proposal for a bundle."""
        return Proposal(
            change=self.captured.build_proposed(),
            category=category,
            is_fallback=is_fallback,
            analysis=analysis,
            draft=draft,
            verdict=self.verdict,
            commands=self.proof.commands,
            notes=self.proof.notes,
            checks=self.proof.checks,
            findings=self.proof.findings,
            gates=self.proof.gates,
            symbols=self.proof.symbols,
            digest=self.proof.digest,
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
    on_failure: Callable[[FailedAttempt], None] = lambda _: None,
    *,
    requested: bool = False,
) -> ProvenChange | FailedAttempt:
    """Try a change at most ``attempts`` times; each attempt learns why the earlier ones failed. A
    repeated failure is the last attempt. So is one that changes nothing, if ``requested``: the
    request may need no change.

    After a failed attempt the checkout is restored and ``on_failure`` is called; after success the
    change stays in place. Raises Stop.
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
        on_failure(outcome)
        failures.append(outcome)
        if requested and outcome.unchanged:
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
    """Add the programs missing in the sandbox, so that the next attempt does not look for them."""
    if not (names := ", ".join(missing)):
        return failed
    text = f"Reported by the agent as not found in the sandbox: {names}."
    return dataclasses.replace(failed, why=f"{failed.why.rstrip()}\n{text}")


def try_change(
    checkout: Checkout,
    proof: ProofContext,
    analysis: AnalysisResult,
    bead: RunBead,
    recorder: Recorder,
) -> ProvenChange | FailedAttempt:
    """Implement and prove one change. The caller restores the checkout."""
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
        last_words=implemented.said,
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
    from gitlab_nightshift.stages.work.proofs import build_subject, check_without_running, prove

    subject = build_subject(checkout, proof, implemented.category, analysis, captured)
    reading = check_without_running(proof, captured, subject)
    if reading.why:
        return _fail_attempt(proof, implemented, reading.why, Code.POLICY_DENY)
    _emit_step_end(proof, implemented, _describe_size(captured))
    name = f"{implemented.category}-{implemented.attempt}"
    result = prove(checkout, proof, captured, subject, name, reading.undecided)
    if result.why:
        return FailedAttempt(result.why)
    checkout.apply_change(captured)
    verified = bead("verify", result.evidence)
    if why := _find_verify_problem(verified):
        return _fail_attempt(proof, verified, why)
    _emit_step_end(proof, verified, "passed")
    assert isinstance(verified.handoff, Verdict)
    warnings = tuple(f for f in (*reading.findings, *result.findings) if f.level == "warn")
    whole = dataclasses.replace(
        reading,
        commands=result.commands,
        notes=result.notes,
        checks=result.checks,
        findings=warnings,
    )
    return ProvenChange(captured, verified.handoff, whole, select_commands(verified.tools))


def _fail_attempt(
    proof: ProofContext, result: BeadResult, why: str, code: Code = Code.TEST_FAILED
) -> FailedAttempt:
    _emit_step_end(proof, result, why.strip().partition("\n")[0], ok=False)
    return FailedAttempt(why, code)


def _emit_step_end(proof: ProofContext, result: BeadResult, text: str, *, ok: bool = True) -> None:
    key = format_step_key(result.bead, result.category, result.attempt)
    proof.work.emit(StepEnded(key, ok, text))


def _describe_size(captured: CapturedChange) -> str:
    size = captured.size
    return f"{count_words(len(size.files), 'file')}, {size.delta}"


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
        details = verified.handoff.error_details.strip()
        return f"{VERIFY_PREFIX} {details}" if details else "Verify did not pass the change."
    return ""
