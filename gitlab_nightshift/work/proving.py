"""What a change is proven by: red flags, the commands, and what only running can show."""

from dataclasses import dataclass

from gitlab_nightshift.events import Emit, Note, StepEnded, StepStarted
from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.policy import ENFORCED, NO_INCLUDES, ChangeView, CiFiles, gated, violations
from gitlab_nightshift.records import AnalysisResult, Check, CommandResult, Finding, Gated
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.verdict.change import Context, read_change
from gitlab_nightshift.verdict.commands import Runner, failure_text, run_commands
from gitlab_nightshift.verdict.evidence import Evidence, Lab, Subject, deadline, flaky, gather
from gitlab_nightshift.verdict.flags import judge
from gitlab_nightshift.work.baseline import Baseline


@dataclass(frozen=True)
class Proof:
    """What a change is held against, besides the Verify bead.

    Where the baseline was red already, failing commands are told and prove nothing.
    """

    settings: Settings
    recent_files: frozenset[str]
    ci_config: str
    runner: Runner
    baseline: Baseline
    emit: Emit
    ci_files: CiFiles = NO_INCLUDES


@dataclass(frozen=True)
class Proven:
    """What was seen of a change; with ``why`` it is refused, for the next attempt to know."""

    why: str = ""
    commands: tuple[CommandResult, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    gates: tuple[Gated, ...] = ()


def subject_of(
    checkout: Checkout, proof: Proof, category: str, analysis: AnalysisResult, captured: Captured
) -> Subject:
    """The change, and what it is held against."""
    selected = analysis.selected
    context = Context(
        settings=proof.settings,
        category=category,
        selected=tuple(selected.files) if selected else (),
        recent_files=proof.recent_files,
        ci_config=proof.ci_config,
    )
    change = read_change(checkout.repository, checkout.base_sha, captured.tree_id)
    claim = f"{selected.description}\n{selected.rationale}" if selected else ""
    return Subject(checkout.base_sha, captured.tree_id, change, context, claim)


def look(proof: Proof, captured: Captured, subject: Subject) -> Proven:
    """What needs no run: the policy and the red flags."""
    change = captured.summary()
    view = ChangeView(change.files, change.lines, proof.ci_files)
    denied = violations(view, proof.settings, proof.recent_files, proof.ci_config)
    findings = judge(subject.change, subject.context)
    others = tuple(finding for finding in findings if finding.name not in ENFORCED)
    gates = gated(view, proof.settings, proof.ci_config)
    return Proven("\n".join((*denied, *_failing(others))), findings=findings, gates=gates)


def prove(
    checkout: Checkout, proof: Proof, captured: Captured, subject: Subject, name: str
) -> Proven:
    """The commands, in the checkout put back with only the change applied; then the evidence.

    ``name`` is the last part of the names of steps and logs.
    """
    try:
        return _proven(checkout, proof, captured, subject, name)
    finally:
        proof.runner.renew()


def _proven(
    checkout: Checkout, proof: Proof, captured: Captured, subject: Subject, name: str
) -> Proven:
    unrestored = checkout.lay(captured)
    commands = _run_commands(checkout, proof, captured, f"checks-{name}")
    failed = failure_text(proof.runner, commands, f"checks-{name}")
    if failed and not proof.baseline.red:
        return Proven(failed, commands)
    seen = _evidence(checkout, proof, subject, f"evidence-{name}")
    notes = _notes(unrestored)
    for note in notes:
        proof.emit(Note(note, warning=True))
    findings = (*flaky(commands, subject.context), *seen.findings)
    checks = (*proof.baseline.checks, *seen.checks)
    return Proven("\n".join(_failing(findings)), commands, notes, checks, findings)


def _failing(findings: tuple[Finding, ...]) -> list[str]:
    return [str(finding) for finding in findings if finding.level == "fail"]


def _run_commands(
    checkout: Checkout, proof: Proof, captured: Captured, name: str
) -> tuple[CommandResult, ...]:
    wanted = proof.baseline.commands
    if not wanted:
        return ()
    proof.emit(StepStarted(name, "The project's own tests on the change"))
    results = run_commands(proof.runner, wanted, name, lambda: checkout.lay(captured))
    good = sum(result.ok for result in results)
    proof.emit(StepEnded(name, good == len(wanted), f"{good} of {len(wanted)} commands passed"))
    return results


def _evidence(checkout: Checkout, proof: Proof, subject: Subject, name: str) -> Evidence:
    """New tests before the change and against mutants, complexity, a benchmark: by category."""
    proof.emit(StepStarted(name, "What only running can show"))
    end = deadline(proof.runner.limits().timeout_s)
    seen = gather(subject, Lab(checkout, proof.runner, proof.baseline.commands, name, end))
    for check in seen.checks:
        proof.emit(Note(f"  {check.title}: {check.detail}"))
    failing = _failing(seen.findings)
    text = failing[0] if failing else f"{len(seen.checks)} {_plural('check', len(seen.checks))}"
    proof.emit(StepEnded(name, not failing, text))
    return seen


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _notes(unrestored: tuple[str, ...]) -> tuple[str, ...]:
    if not unrestored:
        return ()
    some = ", ".join(unrestored[:5]) + (" …" if len(unrestored) > 5 else "")
    return (
        f"{len(unrestored)} files are not what they were before the night and could not be put back"
        f" ({some}): commands that depend on them prove nothing.",
    )
