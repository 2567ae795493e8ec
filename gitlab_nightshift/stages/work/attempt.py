"""Attempts to make a proven change: Implement, then all proofs, the cheapest first, and Verify,
which asks a model, last.

Shared by nights, given tasks and delegations. The first proof that fails ends an attempt.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import (
    AnalysisResult,
    BeadResult,
    BeadStatus,
    Draft,
    Verdict,
)
from gitlab_nightshift.records.events import Note, StepEnded
from gitlab_nightshift.records.products import Proposal
from gitlab_nightshift.records.usage import ToolUse
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.disk_space import is_full_disk
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.stages.work.baseline import ProofContext, ProofResult
from gitlab_nightshift.stages.work.bead_prompt import FailedAttempt, StepInput, build_step_input
from gitlab_nightshift.stages.work.recording import Recorder
from gitlab_nightshift.stages.work.tool_use import select_commands
from gitlab_nightshift.text.printable_text import count_words

VERIFY_PREFIX = "Verify (an agent) says:"
"""Prefix for unverified text from Verify."""

RunBead = Callable[[str, str], BeadResult]
"""Runs a bead, by its name and with the evidence for it."""

RunStep = Callable[[str, int, StepInput], BeadResult]
"""Runs a bead by its name, the attempt's number from 1, and its input."""


@dataclass(frozen=True)
class ProvenChange:
    """A change that passed every proof. ``proof`` holds only the warnings among the findings,
    ``verify_tools`` the commands that Verify ran (None if unknown)."""

    captured: CapturedChange
    verdict: Verdict
    proof: ProofResult
    verify_tools: ToolUse | None = None

    def build_proposal(
        self, category: str, analysis: AnalysisResult, draft: Draft, *, is_fallback: bool
    ) -> Proposal:
        """The change as a bundle proposes it."""
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
    """The key of a bead's step, by which the job log shows it as a section."""
    return f"{bead}-{category}-{attempt}"


@dataclass(frozen=True)
class ChangeAttempts:
    """The attempts at one change. The checkout loses a failed change and keeps a proven one."""

    checkout: Checkout
    proof: ProofContext
    analysis: AnalysisResult
    run_step: RunStep
    recorder: Recorder

    def try_until_proven(
        self, max_attempts: int, on_failure: Callable[[FailedAttempt], None], *, requested: bool
    ) -> ProvenChange | FailedAttempt:
        """Try at most ``max_attempts`` times. Each attempt learns why the earlier ones failed, and
        ``on_failure`` is called after each failure.

        No attempt follows a failure that has occurred before, nor, if ``requested``, an attempt
        that changed nothing: the request may need no change. Raises Stop.
        """
        failures: list[FailedAttempt] = []
        missing_programs: dict[str, None] = {}
        for number in range(1, max_attempts + 1):
            outcome = self._try_change(number, failures, missing_programs)
            if isinstance(outcome, ProvenChange):
                return outcome
            if names := ", ".join(missing_programs):
                # The next attempt need not look for them again.
                text = f"Reported by the agent as not found in the sandbox: {names}."
                outcome = dataclasses.replace(outcome, why=f"{outcome.why.rstrip()}\n{text}")
            self.checkout.restore()
            on_failure(outcome)
            failures.append(outcome)
            if requested and outcome.unchanged:
                break
            if number < max_attempts and any(map(outcome.repeats, failures[:-1])):
                text = "The same failure again, word for word: no further attempts."
                self.proof.work.emit(Note(text))
                break
        return failures[-1]

    def _try_change(
        self, number: int, failures: Sequence[FailedAttempt], missing_programs: dict[str, None]
    ) -> ProvenChange | FailedAttempt:
        """Implement and prove one change. Adds to ``missing_programs`` what agents did not find."""

        def run_bead(bead: str, evidence: str) -> BeadResult:
            result = self.run_step(bead, number, build_step_input(failures, evidence))
            missing_programs.update(dict.fromkeys(result.missing))
            return result

        try:
            return self._implement_and_prove(run_bead)
        except (OSError, GitError) as error:
            if not is_full_disk(error):
                raise
            return FailedAttempt(f"The disk was full: {error}.", Code.APPLY_FAILED)

    def _implement_and_prove(self, run_bead: RunBead) -> ProvenChange | FailedAttempt:
        implemented = run_bead("implement", "")
        if implemented.status is BeadStatus.DISK_FULL:
            why = f"Implement failed ({implemented.status}): {implemented.error}"
            return self._fail(implemented, why, Code.APPLY_FAILED)
        captured = self.checkout.capture()
        self.recorder.record_change(implemented, captured, self.checkout.repository)
        outcome = self._prove(run_bead, implemented, captured)
        if isinstance(outcome, ProvenChange):
            return outcome
        unchanged = implemented.ok and captured.empty and not captured.refusals
        return dataclasses.replace(
            outcome,
            patch=captured.patch,
            denied=implemented.denied,
            unchanged=unchanged,
            last_message=implemented.said,
        )

    def _prove(
        self, run_bead: RunBead, implemented: BeadResult, captured: CapturedChange
    ) -> ProvenChange | FailedAttempt:
        if why := _find_change_problem(implemented, captured):
            return self._fail(implemented, why, Code.APPLY_FAILED)
        # Imported only once there is a change: this process starts while the plan is being made,
        # and the proofs would be a fifth of what it loads.
        from gitlab_nightshift.stages.work.proofs import build_subject, check_without_running, prove

        checkout, proof = self.checkout, self.proof
        subject = build_subject(checkout, proof, implemented.category, self.analysis, captured)
        read = check_without_running(proof, captured, subject)
        if read.why:
            return self._fail(implemented, read.why, Code.POLICY_DENY)
        size = captured.size
        self._end_step(implemented, f"{count_words(len(size.files), 'file')}, {size.delta}")
        name = f"{implemented.category}-{implemented.attempt}"
        ran = prove(checkout, proof, captured, subject, name, read.undecided)
        if ran.why:
            return FailedAttempt(ran.why)
        checkout.apply_change(captured)  # the proofs have put other trees into the checkout
        verified = run_bead("verify", ran.evidence)
        if why := _find_verify_problem(verified):
            return self._fail(verified, why)
        self._end_step(verified, "passed")
        assert isinstance(verified.handoff, Verdict)
        warnings = tuple(f for f in (*read.findings, *ran.findings) if f.level == "warn")
        passed = dataclasses.replace(
            read, commands=ran.commands, notes=ran.notes, checks=ran.checks, findings=warnings
        )
        return ProvenChange(captured, verified.handoff, passed, select_commands(verified.tools))

    def _fail(self, result: BeadResult, why: str, code: Code = Code.TEST_FAILED) -> FailedAttempt:
        self._end_step(result, why.strip().partition("\n")[0], ok=False)
        return FailedAttempt(why, code)

    def _end_step(self, result: BeadResult, text: str, *, ok: bool = True) -> None:
        key = format_step_key(result.bead, result.category, result.attempt)
        self.proof.work.emit(StepEnded(key, ok, text))


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
