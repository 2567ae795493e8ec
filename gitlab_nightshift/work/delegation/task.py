"""Apply and Verify: the task, tried like any improvement of a night, until it is proven."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code
from gitlab_nightshift.events import CmdEnd, CmdStart, Emit, StepStarted
from gitlab_nightshift.guidance import TASK
from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.host.process import Ended
from gitlab_nightshift.host.repository import Repository
from gitlab_nightshift.records import (
    AnalysisCandidate,
    AnalysisResult,
    BeadResult,
    BeadStatus,
    CommandResult,
    Outcome,
    Proposal,
)
from gitlab_nightshift.verdict.commands import Runner
from gitlab_nightshift.work.agents.base import BeadTask
from gitlab_nightshift.work.attempt import Bad, Good, step_key, try_change
from gitlab_nightshift.work.baseline import Baseline
from gitlab_nightshift.work.bead import run_bead
from gitlab_nightshift.work.context import bead_values
from gitlab_nightshift.work.delegation.phases import Phase, Phases, Trail
from gitlab_nightshift.work.draft import draft_from_analysis
from gitlab_nightshift.work.ending import Ending
from gitlab_nightshift.work.ledger import Ledger, Stop
from gitlab_nightshift.work.night import Night
from gitlab_nightshift.work.recording import Recorder
from gitlab_nightshift.work.stage import Course, WorkPlace

TEST_LOG = "checks-"
"""How the log names of the test begin; other commands are evidence."""
_PHASES = {"implement": Phase.APPLY, "verify": Phase.VERIFY}
_UNREADABLE = {BeadStatus.BAD_OUTPUT, BeadStatus.NO_HANDOFF}
_ASKED_FOR = "Somebody asked for it."


def course_of(phases: Phases, trail: Trail) -> Course:
    """What is done in the room. The test is not run beforehand: it may be what the task mends."""

    def first(place: WorkPlace, _checkout: Checkout, _runner: Runner) -> Baseline:
        return Baseline(commands=place.verify.commands)

    return Course(first, lambda night: do_task(night, phases, trail))


def do_task(night: Night, phases: Phases, trail: Trail) -> Ending:
    """Up to 1 + ``max_implement_retries`` attempts. The checkout is put back after each."""
    night = _watched(night, trail)
    trail.saved = night.checkout.saved
    selected = AnalysisCandidate((), night.plan.task, rationale=_ASKED_FOR)
    analysis = AnalysisResult("IMPROVEMENT_FOUND", category_used=TASK, selected=selected)
    last = Bad("")
    try:
        for attempt in range(1, night.settings.max_implement_retries + 2):
            outcome = _attempt(night, phases, trail, analysis, attempt, last.why)
            if isinstance(outcome, Good):
                return _proven(analysis, outcome)
            last = outcome
            phases.leave(last.why)
            night.checkout.put_back()
            night.bench.ledger.check()
    except Stop as stop:
        return _stopped(night, trail, stop)
    return _failed(last.why, _code(last, night.bench.ledger))


def _attempt(
    night: Night,
    phases: Phases,
    trail: Trail,
    analysis: AnalysisResult,
    attempt: int,
    error: str,
) -> Good | Bad:
    def bead(name: str) -> BeadResult:
        phases.enter(_PHASES[name], attempt)
        trail.began = True
        return _bead(night, name, attempt, analysis, error)

    outcome = try_change(night.checkout, night.proof, analysis, bead, night.recorder)
    if isinstance(outcome, Good):
        night.checkout.put_back()
    return outcome


def _bead(
    night: Night, name: str, attempt: int, analysis: AnalysisResult, error: str
) -> BeadResult:
    model = getattr(night.settings.models, name)
    title = f"{name.capitalize()} · attempt {attempt} · {model}"
    night.emit(StepStarted(step_key(name, TASK, attempt), title))
    values = bead_values(
        night.values,
        night.settings,
        TASK,
        left_s=night.bench.ledger.left_s(),
        analysis=analysis,
        verify_error=error,
    )
    text = json.dumps(dataclasses.asdict(analysis), indent=2)
    night.emit(CmdStart(f"agent: {name}"))
    return run_bead(night.bench, name, TASK, attempt, values, text)


# --- endings ----------------------------------------------------------------------------------


def _proven(analysis: AnalysisResult, good: Good) -> Ending:
    """The bundle's proposal is a night's: ``nightshift publish`` takes it."""
    proposal = Proposal(
        change=good.captured.summary(),
        category=TASK,
        is_fallback=False,
        analysis=analysis,
        draft=draft_from_analysis(analysis),
        verdict=good.verdict,
        commands=good.seen.commands,
        notes=good.seen.notes,
        checks=good.seen.checks,
        findings=good.told,
        gates=good.gates,
    )
    return Ending(
        outcome=Outcome.MR_READY,
        reason="the change is proven",
        category_used=TASK,
        proposal=proposal,
        captured=good.captured,
    )


def _stopped(night: Night, trail: Trail, stop: Stop) -> Ending:
    """A bead that a limit has ended may have changed something."""
    trail.change = _larger(trail.change, night.checkout.change())
    return _failed(stop.reason, stop.code or Code.BUDGET)


def _larger(known: Captured | None, now: Captured) -> Captured | None:
    return known if now.empty else now


def _failed(why: str, code: Code) -> Ending:
    return Ending(Outcome.FAILED, why, TASK, error_code=code.value)


def _code(last: Bad, ledger: Ledger) -> Code:
    status = ledger.results[-1].status
    if status is BeadStatus.TIMEOUT:
        return Code.TIMEOUT
    return Code.PARSE_ERROR if status in _UNREADABLE else last.code


# --- watching -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Keeper(Recorder):
    """Records as the night's recorder does, and remembers what the result tells."""

    emit: Emit
    trail: Trail

    def keep(self, task: BeadTask, ended: Ended, stdout: Path) -> None:
        self.trail.exit_code = ended.exit_status
        self.emit(CmdEnd(f"agent: {task.bead}", ended.exit_status, round(ended.duration_s, 3)))
        super().keep(task, ended, stdout)

    def keep_change(self, result: BeadResult, captured: Captured, repository: Repository) -> None:
        self.trail.change = captured
        super().keep_change(result, captured, repository)


@dataclass(frozen=True)
class _Told(Runner):
    """Tells the start and the end of each command."""

    trail: Trail | None = None

    def run(
        self, argv: Sequence[str], log: str, *, at_most_s: float | None = None
    ) -> CommandResult:
        result = self._told(argv, log, at_most_s)
        if self.trail and log.startswith(TEST_LOG):
            self.trail.tests.append(result)
        return result

    def _told(self, argv: Sequence[str], log: str, at_most_s: float | None) -> CommandResult:
        command = " ".join(argv)
        self.emit(CmdStart(command))
        result = super().run(argv, log, at_most_s=at_most_s)
        self.emit(CmdEnd(command, result.exit_status, round(result.duration_s, 3)))
        return result


def _watched(night: Night, trail: Trail) -> Night:
    keeper = _Keeper(**vars(night.recorder), emit=night.emit, trail=trail)
    runner = _Told(**vars(night.proof.runner), trail=trail)
    return dataclasses.replace(
        night,
        recorder=keeper,
        bench=dataclasses.replace(night.bench, keep=keeper.keep),
        proof=dataclasses.replace(night.proof, runner=runner),
    )
