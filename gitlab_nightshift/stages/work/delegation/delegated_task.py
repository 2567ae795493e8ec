"""Does a task: creates the workspace, lets agents change it, and proves the change."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents.agent import BeadTask
from gitlab_nightshift.agents.codex import Codex
from gitlab_nightshift.errors import Code
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus, CommandResult
from gitlab_nightshift.records.delegation_records import Payload, TestResult, WorkReport
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.handoffs import AnalysisCandidate, AnalysisResult
from gitlab_nightshift.records.products import Outcome, Plan
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.repository import changed_files
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.attempt import ProvenChange, try_until_proven
from gitlab_nightshift.stages.work.baseline import Baseline
from gitlab_nightshift.stages.work.delegation.delegation_workspace import (
    DelegationWorkspace,
    make_workspace,
)
from gitlab_nightshift.stages.work.delegation.phases import (
    TEST_LOG,
    DelegationProgress,
    Phase,
    Phases,
)
from gitlab_nightshift.stages.work.draft_from_analysis import draft_from_analysis
from gitlab_nightshift.stages.work.night_bead import Night, run_night_bead
from gitlab_nightshift.stages.work.night_bundle import build_bundle, encode_bundle
from gitlab_nightshift.stages.work.night_ending import Ending, run_to_ending
from gitlab_nightshift.stages.work.recording import Recorder
from gitlab_nightshift.stages.work.run_budget import Ledger, Stop, open_ledger
from gitlab_nightshift.stages.work.step_input import FailedAttempt, StepInput
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_preparation import Tools, prepare
from gitlab_nightshift.stages.work.work_stage import Keep, Workflow, run_workflow

_PHASES = {"implement": Phase.APPLY, "verify": Phase.VERIFY}
_UNREADABLE = {BeadStatus.BAD_OUTPUT, BeadStatus.NO_HANDOFF}
_ASKED_FOR = "Somebody asked for it."


@dataclass(frozen=True)
class DelegationTask:
    """A task and everything prepared for it; ``scratch`` is the folder for a private workspace."""

    payload: Payload
    source: DelegationSource
    plan: Plan
    work_context: WorkContext
    scratch: Path


@dataclass
class _WorkState:
    progress: DelegationProgress
    phases: Phases
    ledger: Ledger
    workspace: DelegationWorkspace | None = None
    fall_back: bool = False


def do_work(task: DelegationTask, gateway: RemoteGateway | None, keep: Keep) -> WorkReport:
    """Work until the change is proven or has failed. Never raises: a failure, a signal or a bug
    is in the report. ``keep`` gets the bundle of a proven change, or ``failed.patch``."""
    started, work_context = read_clock(), task.work_context
    state = _WorkState(
        DelegationProgress(),
        Phases(work_context.emit),
        open_ledger(task.plan, work_context.seconds),
    )
    state.phases.enter(Phase.APPLY)
    disks = (work_context.private, work_context.checkout)
    ending = run_to_ending(
        task.plan, work_context.logs, disks, lambda: _run_in_workspace(task, state, gateway, disks)
    )
    state.phases.leave(ending.reason if ending.error_code else "")
    if ending.captured and not ending.error_code:
        bundle = build_bundle(task.plan, ending, state.ledger, read_clock() - started)
        keep("bundle/change.patch", ending.captured.patch)
        keep("bundle/bundle.json", encode_bundle(bundle))
    elif (change := state.progress.change) and change.patch:
        keep("failed.patch", change.patch)
    return _build_result(state, ending)


def _run_in_workspace(
    task: DelegationTask, state: _WorkState, gateway: RemoteGateway | None, disks: tuple[Path, ...]
) -> Ending:
    output_dir = task.work_context.settings.output_dir
    path = task.scratch / (task.source.top.name or "checkout")
    workspace = state.workspace = make_workspace(
        task.source, task.payload, task.plan.base_sha, path, output_dir
    )
    plan = dataclasses.replace(task.plan, base_sha=workspace.base)
    work_context = dataclasses.replace(task.work_context, checkout=workspace.path)
    workflow = _build_workflow(state.phases, state.progress)

    def prepare_and_run() -> Ending:
        tools = _prepare_tools(work_context, task.payload)
        return run_workflow(plan, work_context, tools, state.ledger, workflow, gateway)

    ending = run_to_ending(plan, work_context.logs, disks, prepare_and_run)
    if ending.error_code == Code.PROVIDER_UNAVAILABLE:
        state.fall_back = not changed_files.list_changed_files(task.source.machine, workspace.path)
    return ending


def _build_result(state: _WorkState, ending: Ending) -> WorkReport:
    progress, workspace = state.progress, state.workspace
    return WorkReport(
        error_code=ending.error_code,
        reason=ending.reason,
        local=workspace is not None and workspace.local,
        began=progress.began,
        changed=progress.changed,
        fall_back=state.fall_back,
        exit_code=progress.exit_code,
        test_result=_find_test_result(progress),
        said=progress.said,
        logs=_find_last_logs(state.ledger),
    )


def _find_test_result(progress: DelegationProgress) -> TestResult:
    if not progress.tests:
        return "skipped"
    return "passed" if progress.tests[-1].ok else "failed"


def _find_last_logs(ledger: Ledger) -> tuple[str, ...]:
    """The logs of the last Implement bead, else of the last bead."""
    changing = [each for each in ledger.results if each.bead == "implement"] or ledger.results
    logs = changing[-1].logs if changing else ()
    return tuple(Path(name).name.removesuffix(".gz") for name in logs)


def _build_workflow(phases: Phases, progress: DelegationProgress) -> Workflow:
    """The steps in the sandbox. The test is not run beforehand: the task may be to fix it."""

    def build_baseline(work_context: WorkContext, _checkout: Checkout, _runner: Runner) -> Baseline:
        requested = work_context.verify.commands
        return Baseline(commands=requested, no_test_requested=not requested)

    return Workflow(build_baseline, lambda night: _do_task(night, phases, progress))


def _do_task(night: Night, phases: Phases, progress: DelegationProgress) -> Ending:
    """Up to 1 + ``max_implement_retries`` attempts. The checkout is restored after each."""
    night = _watch_progress(night, phases, progress)
    selected = AnalysisCandidate((), night.plan.task, rationale=_ASKED_FOR)
    analysis = AnalysisResult("IMPROVEMENT_FOUND", category_used=TASK, selected=selected)

    def run_step(bead: str, attempt: int, step_input: StepInput) -> BeadResult:
        phases.enter(_PHASES[bead], attempt)
        progress.began = True
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
    """The bundle's proposal is a night's: ``nightshift publish`` accepts it."""
    proposal = good.build_proposal(TASK, analysis, draft_from_analysis(analysis))
    return Ending(
        outcome=Outcome.MR_READY,
        reason="the change is proven",
        category_used=TASK,
        proposal=proposal,
        captured=good.captured,
    )


def _build_stopped_ending(night: Night, progress: DelegationProgress, stop: Stop) -> Ending:
    """A bead that was stopped at a limit may have changed something."""
    progress.change = _choose_change(progress.change, night.checkout.capture())
    return _build_failed_ending(stop.reason, stop.code or Code.BUDGET)


def _choose_change(earlier: CapturedChange | None, now: CapturedChange) -> CapturedChange | None:
    return earlier if now.empty else now


def _build_failed_ending(why: str, code: Code) -> Ending:
    return Ending(Outcome.FAILED, why, TASK, error_code=code.value)


def _find_error_code(last: FailedAttempt, ledger: Ledger) -> Code:
    status = ledger.results[-1].status
    if status is BeadStatus.TIMEOUT:
        return Code.TIMEOUT
    return Code.PARSE_ERROR if status in _UNREADABLE else last.code


# --- progress -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ProgressRecorder(Recorder):
    """Records as the night's recorder does, and keeps what the result needs."""

    progress: DelegationProgress

    def keep(self, task: BeadTask, ended: ProgramEnd, stdout: Path) -> None:
        self.progress.exit_code = ended.exit_status
        super().keep(task, ended, stdout)

    def keep_change(
        self, result: BeadResult, captured: CapturedChange, repository: Repository
    ) -> None:
        self.progress.change, self.progress.said = captured, result.said
        super().keep_change(result, captured, repository)


@dataclass(frozen=True)
class _TestRecorder(Runner):
    """Notes the results of the test that was asked for."""

    progress: DelegationProgress | None = None

    def run(
        self, argv: Sequence[str], log: str, *, at_most_s: float | None = None
    ) -> CommandResult:
        result = super().run(argv, log, at_most_s=at_most_s)
        if self.progress and log.startswith(TEST_LOG):
            self.progress.tests.append(result)
        return result


def _watch_progress(night: Night, phases: Phases, progress: DelegationProgress) -> Night:
    recorder = _ProgressRecorder(**vars(night.recorder), progress=progress)
    runner = _TestRecorder(**vars(night.proof.runner), progress=progress)

    def begin_proof(attempt: int) -> None:
        phases.enter(Phase.VERIFY, attempt)

    return dataclasses.replace(
        night,
        recorder=recorder,
        bead_context=dataclasses.replace(night.bead_context, keep=recorder.keep),
        proof=dataclasses.replace(night.proof, runner=runner, on_proof_start=begin_proof),
    )


class _CustomCodex(Codex):
    """Codex, started as ``debug.codex_command``, whose first word is already in the settings."""

    def __init__(self, settings: Settings, words: tuple[str, ...]) -> None:
        super().__init__(settings)
        self._words = words[1:]

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The program, its own first arguments, then codex's."""
        program, *args = super().build_bead_args(task, path)
        return [program, *self._words, *args]


def _prepare_tools(work_context: WorkContext, payload: Payload) -> Tools:
    """The agent and the templates, checked. Raises what ``work_stage.prepare`` raises."""
    words = payload.debug.codex_command
    if not words or work_context.settings.agent != "codex":
        return prepare(work_context)
    return dataclasses.replace(
        prepare(work_context), provider=_CustomCodex(work_context.settings, words)
    )
