"""One attempt: Implement, then every proof in order of cost. The first that fails ends it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.events import Emit, Note, StepEnded, StepStarted
from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.host.process import Limits
from gitlab_nightshift.host.sandbox.launch import Confined
from gitlab_nightshift.policy import ChangeView, violations
from gitlab_nightshift.records import BeadResult, CommandResult, Verdict
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.verdict.commands import failure_text, run_commands
from gitlab_nightshift.work.recording import Recorder

RunBead = Callable[[str], BeadResult]


@dataclass(frozen=True)
class Proof:
    """What a change is held against, besides the Verify bead; ``notes`` are known beforehand.

    Where the baseline was red already, failing commands are told and prove nothing.
    """

    settings: Settings
    recent_files: frozenset[str]
    ci_config: str
    env: Mapping[str, str]
    logs: Path
    limits: Callable[[], Limits]
    emit: Emit
    confined: Confined
    notes: tuple[str, ...] = ()
    baseline_red: bool = False


@dataclass(frozen=True)
class Good:
    """A change that passed everything, fixed as it was then."""

    captured: Captured
    verdict: Verdict
    commands: tuple[CommandResult, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Bad:
    """A failed attempt, and what the next one should know."""

    why: str


def step_key(bead: str, category: str, attempt: int) -> str:
    """The name of a bead's section in the job log."""
    return f"{bead}-{category}-{attempt}"


def try_change(checkout: Checkout, proof: Proof, bead: RunBead, recorder: Recorder) -> Good | Bad:
    """Implement and prove one change. The checkout is left as it is: the caller puts it back."""
    implemented = bead("implement")
    captured = checkout.change()
    recorder.keep_change(implemented, captured, checkout.repository)
    why = _not_acceptable(implemented, captured, proof)
    _ended(proof, implemented, why, _size(captured))
    if why:
        return Bad(why)
    checkout.lay(captured)
    verified = bead("verify")
    why = _not_passed(verified)
    _ended(proof, verified, why, "passed")
    if why:
        return Bad(why)
    return _proven(checkout, proof, captured, verified)


def _ended(proof: Proof, result: BeadResult, why: str, text: str) -> None:
    key = step_key(result.bead, result.category, result.attempt)
    proof.emit(StepEnded(key, not why, why.strip().partition("\n")[0] or text))


def _size(captured: Captured) -> str:
    change = captured.summary()
    files = "1 file" if len(change.files) == 1 else f"{len(change.files)} files"
    return f"{files}, +{change.added} -{change.deleted}"


def _not_acceptable(implemented: BeadResult, captured: Captured, proof: Proof) -> str:
    """Why a change is refused before anyone looks at it; "" where it is not."""
    if not implemented.ok:
        return f"Implement failed ({implemented.status}): {implemented.error}"
    if captured.refusals:
        return "\n".join(f"{refusal}." for refusal in captured.refusals)
    if captured.empty:
        return "Implement changed nothing."
    change = captured.summary()
    view = ChangeView(change.files, change.lines)
    return "\n".join(violations(view, proof.settings, proof.recent_files, proof.ci_config))


def _not_passed(verified: BeadResult) -> str:
    if not isinstance(verified.handoff, Verdict):
        return f"Verify failed ({verified.status}): {verified.error}"
    if not verified.handoff.passed:
        return verified.handoff.error_details or "Verify did not pass the change."
    return ""


def _proven(
    checkout: Checkout, proof: Proof, captured: Captured, verified: BeadResult
) -> Good | Bad:
    """The team's own commands, in the checkout put back with only the change applied."""
    assert isinstance(verified.handoff, Verdict)
    unrestored = checkout.lay(captured)
    name = f"checks-{verified.category}-{verified.attempt}"
    commands = _run_commands(checkout, proof, name)
    failed = failure_text(commands, proof.logs, name)
    if failed and not proof.baseline_red:
        return Bad(failed)
    notes = _notes(unrestored)
    for note in notes:
        proof.emit(Note(note, warning=True))
    return Good(captured, verified.handoff, commands, (*proof.notes, *notes))


def _run_commands(checkout: Checkout, proof: Proof, name: str) -> tuple[CommandResult, ...]:
    if not proof.settings.verify_commands:
        return ()
    proof.emit(StepStarted(name, "verify_commands on the change"))
    results = run_commands(
        proof.settings.verify_commands,
        checkout=checkout.path,
        env=proof.env,
        logs=proof.logs,
        name=name,
        limits=proof.limits(),
        emit=proof.emit,
        confined=proof.confined,
    )
    good = sum(result.ok for result in results)
    text = f"{good} of {len(proof.settings.verify_commands)} commands passed"
    proof.emit(StepEnded(name, good == len(results), text))
    return results


def _notes(unrestored: tuple[str, ...]) -> tuple[str, ...]:
    if not unrestored:
        return ()
    some = ", ".join(unrestored[:5]) + (" …" if len(unrestored) > 5 else "")
    return (
        f"The agent changed {len(unrestored)} ignored files that were there before and could not "
        f"be put back ({some}): commands that depend on them prove nothing.",
    )
