"""One attempt: Implement, then every proof in order of cost. The first that fails ends it."""

from collections.abc import Callable
from dataclasses import dataclass

from gitlab_nightshift.errors import Code
from gitlab_nightshift.events import StepEnded
from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.host.git import GitError
from gitlab_nightshift.host.space import is_full_disk
from gitlab_nightshift.records import (
    AnalysisResult,
    BeadResult,
    BeadStatus,
    Finding,
    Gated,
    Verdict,
)
from gitlab_nightshift.work.proving import Proof, Proven, look, prove, subject_of
from gitlab_nightshift.work.recording import Recorder

RunBead = Callable[[str], BeadResult]


@dataclass(frozen=True)
class Good:
    """A change that passed everything, fixed as it was then, and what was seen of it."""

    captured: Captured
    verdict: Verdict
    seen: Proven
    told: tuple[Finding, ...]
    gates: tuple[Gated, ...] = ()


@dataclass(frozen=True)
class Bad:
    """A failed attempt, what the next one should know, and the code of a run that ends with it."""

    why: str
    code: Code = Code.TEST_FAILED


def step_key(bead: str, category: str, attempt: int) -> str:
    """The name of a bead's section in the job log."""
    return f"{bead}-{category}-{attempt}"


def try_change(
    checkout: Checkout, proof: Proof, analysis: AnalysisResult, bead: RunBead, recorder: Recorder
) -> Good | Bad:
    """Implement and prove one change. The checkout is left as it is: the caller puts it back."""
    try:
        return _tried(checkout, proof, analysis, bead, recorder)
    except (OSError, GitError) as error:
        if not is_full_disk(error):
            raise
        return Bad(f"The disk was full: {error}.", Code.APPLY_FAILED)


def _tried(
    checkout: Checkout, proof: Proof, analysis: AnalysisResult, bead: RunBead, recorder: Recorder
) -> Good | Bad:
    implemented = bead("implement")
    if implemented.status is BeadStatus.DISK_FULL:
        why = f"Implement failed ({implemented.status}): {implemented.error}"
        return _bad(proof, implemented, why, Code.APPLY_FAILED)
    captured = checkout.change()
    recorder.keep_change(implemented, captured, checkout.repository)
    if why := _not_a_change(implemented, captured):
        return _bad(proof, implemented, why, Code.APPLY_FAILED)
    subject = subject_of(checkout, proof, implemented.category, analysis, captured)
    looked = look(proof, captured, subject)
    if looked.why:
        return _bad(proof, implemented, looked.why, Code.POLICY_DENY)
    _ended(proof, implemented, _size(captured))
    checkout.lay(captured)
    verified = bead("verify")
    if why := _not_passed(verified):
        return _bad(proof, verified, why)
    _ended(proof, verified, "passed")
    name = f"{verified.category}-{verified.attempt}"
    seen = prove(checkout, proof, captured, subject, name)
    if seen.why:
        return Bad(seen.why)
    assert isinstance(verified.handoff, Verdict)
    told = tuple(f for f in (*looked.findings, *seen.findings) if f.level == "warn")
    return Good(captured, verified.handoff, seen, told, looked.gates)


def _bad(proof: Proof, result: BeadResult, why: str, code: Code = Code.TEST_FAILED) -> Bad:
    _ended(proof, result, why.strip().partition("\n")[0], ok=False)
    return Bad(why, code)


def _ended(proof: Proof, result: BeadResult, text: str, *, ok: bool = True) -> None:
    key = step_key(result.bead, result.category, result.attempt)
    proof.emit(StepEnded(key, ok, text))


def _size(captured: Captured) -> str:
    change = captured.summary()
    files = "1 file" if len(change.files) == 1 else f"{len(change.files)} files"
    return f"{files}, +{change.added} -{change.deleted}"


def _not_a_change(implemented: BeadResult, captured: Captured) -> str:
    if not implemented.ok:
        return f"Implement failed ({implemented.status}): {implemented.error}"
    if captured.refusals:
        return "\n".join(f"{refusal}." for refusal in captured.refusals)
    return "Implement changed nothing." if captured.empty else ""


def _not_passed(verified: BeadResult) -> str:
    if not isinstance(verified.handoff, Verdict):
        return f"Verify failed ({verified.status}): {verified.error}"
    if not verified.handoff.passed:
        return verified.handoff.error_details or "Verify did not pass the change."
    return ""
