"""Apply and Verify: the task is tried like any improvement of a night, until it is proven."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents.agent import BeadTask
from gitlab_nightshift.errors import Code
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus, CommandResult
from gitlab_nightshift.records.events import CmdEnd, CmdStart, Emit
from gitlab_nightshift.records.handoffs import AnalysisCandidate, AnalysisResult
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.stages.work.attempt import ProvenChange, try_until_proven
from gitlab_nightshift.stages.work.baseline import Baseline
from gitlab_nightshift.stages.work.delegation.phases import (
    TEST_LOG,
    DelegationProgress,
    Phase,
    Phases,
)
from gitlab_nightshift.stages.work.draft_from_analysis import draft_from_analysis
from gitlab_nightshift.stages.work.night_bead import Night, run_night_bead
from gitlab_nightshift.stages.work.night_ending import Ending
from gitlab_nightshift.stages.work.recording import Recorder
from gitlab_nightshift.stages.work.run_budget import Ledger, Stop
from gitlab_nightshift.stages.work.step_input import FailedAttempt, StepInput
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_stage import Workflow

_PHASES = {"implement": Phase.APPLY, "verify": Phase.VERIFY}
_UNREADABLE = {BeadStatus.BAD_OUTPUT, BeadStatus.NO_HANDOFF}
_ASKED_FOR = "Somebody asked for it."


def build_workflow(phases: Phases, progress: DelegationProgress) -> Workflow:
    """The steps in the sandbox. The test is not run beforehand: it may be what the task mends."""

    def build_baseline(work_context: WorkContext, _checkout: Checkout, _runner: Runner) -> Baseline:
        requested = work_context.verify.commands
        return Baseline(commands=requested, no_test_requested=not requested)

    return Workflow(build_baseline, lambda night: do_task(night, phases, progress))


def do_task(night: Night, phases: Phases, progress: DelegationProgress) -> Ending:
    """Up to 1 + ``max_implement_retries`` attempts. The checkout is put back after each."""
    night = _note_progress(night, phases, progress)
    selected = AnalysisCandidate((), night.plan.task, rationale=_ASKED_FOR)
    analysis = AnalysisResult("IMPROVEMENT_FOUND", category_used=TASK, selected=selected)

    def run_step(bead: str, attempt: int, step_input: StepInput) -> BeadResult:
        phases.enter(_PHASES[bead], attempt)
        progress.began = True
        night.emit(CmdStart(f"agent: {bead}"))
        return run_night_bead(night, bead, TASK, attempt, analysis, step_input)

    def end_attempt(failed: FailedAttempt) -> None:
        phases.leave(failed.why)
        night.bead_context.ledger.check()

    attempts = night.settings.max_implement_retries + 1
    try:
        outcome = try_until_proven(
            night.checkout, night.proof, analysis, attempts, run_step, night.recorder, end_attempt
        )
    except Stop as stop:
        return _build_stopped_ending(night, progress, stop)
    if isinstance(outcome, FailedAttempt):
        code = _find_error_code(outcome, night.bead_context.ledger)
        return _build_failed_ending(outcome.why, code)
    night.checkout.restore()
    return _build_proven_ending(analysis, outcome)


# --- endings ----------------------------------------------------------------------------------


def _build_proven_ending(analysis: AnalysisResult, good: ProvenChange) -> Ending:
    """The bundle's proposal is a night's: ``nightshift publish`` takes it."""
    proposal = good.build_proposal(TASK, analysis, draft_from_analysis(analysis))
    return Ending(
        outcome=Outcome.MR_READY,
        reason="the change is proven",
        category_used=TASK,
        proposal=proposal,
        captured=good.captured,
    )


def _build_stopped_ending(night: Night, progress: DelegationProgress, stop: Stop) -> Ending:
    """A bead that a limit has ended may have changed something."""
    progress.change = _choose_change(progress.change, night.checkout.capture())
    return _build_failed_ending(stop.reason, stop.code or Code.BUDGET)


def _choose_change(known: CapturedChange | None, now: CapturedChange) -> CapturedChange | None:
    return known if now.empty else now


def _build_failed_ending(why: str, code: Code) -> Ending:
    return Ending(Outcome.FAILED, why, TASK, error_code=code.value)


def _find_error_code(last: FailedAttempt, ledger: Ledger) -> Code:
    status = ledger.results[-1].status
    if status is BeadStatus.TIMEOUT:
        return Code.TIMEOUT
    return Code.PARSE_ERROR if status in _UNREADABLE else last.code


# --- watching -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ProgressRecorder(Recorder):
    """Records as the night's recorder does, and remembers what the result needs."""

    emit: Emit
    progress: DelegationProgress

    def keep(self, task: BeadTask, ended: ProgramEnd, stdout: Path) -> None:
        self.progress.exit_code = ended.exit_status
        self.emit(CmdEnd(f"agent: {task.bead}", ended.exit_status, round(ended.duration_s, 3)))
        super().keep(task, ended, stdout)

    def keep_change(
        self, result: BeadResult, captured: CapturedChange, repository: Repository
    ) -> None:
        self.progress.change, self.progress.said = captured, result.said
        super().keep_change(result, captured, repository)


@dataclass(frozen=True)
class _ReportingRunner(Runner):
    """Reports the start and the end of each command."""

    progress: DelegationProgress | None = None

    def run(
        self, argv: Sequence[str], log: str, *, at_most_s: float | None = None
    ) -> CommandResult:
        result = self._run_with_events(argv, log, at_most_s)
        if self.progress and log.startswith(TEST_LOG):
            self.progress.tests.append(result)
        return result

    def _run_with_events(
        self, argv: Sequence[str], log: str, at_most_s: float | None
    ) -> CommandResult:
        command = " ".join(argv)
        self.emit(CmdStart(command))
        result = super().run(argv, log, at_most_s=at_most_s)
        self.emit(CmdEnd(command, result.exit_status, round(result.duration_s, 3)))
        return result


def _note_progress(night: Night, phases: Phases, progress: DelegationProgress) -> Night:
    recorder = _ProgressRecorder(**vars(night.recorder), emit=night.emit, progress=progress)
    runner = _ReportingRunner(**vars(night.proof.runner), progress=progress)

    def begin_proof(attempt: int) -> None:
        phases.enter(Phase.VERIFY, attempt)

    return dataclasses.replace(
        night,
        recorder=recorder,
        bead_context=dataclasses.replace(night.bead_context, keep=recorder.keep),
        proof=dataclasses.replace(night.proof, runner=runner, began=begin_proof),
    )
