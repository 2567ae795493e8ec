"""The process that does a delegation's task in a workspace, by the same steps as a night's given
task. It runs agents and reads what they write, holds no secret, and sends its logs and products to
the redactor, which sends nothing back.
"""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.agent import BeadTask
from gitlab_nightshift.agents.codex import Codex
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus, CommandResult
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.delegation_records import Payload, TestResult, WorkReport
from gitlab_nightshift.records.events import (
    AGENT,
    BeadEnded,
    CommandEnded,
    Emit,
    Event,
    ProgramEnded,
    ProgramStarted,
    StepStarted,
)
from gitlab_nightshift.records.products import Bundle, Outcome, Plan
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.changed_files import list_changed_files
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.delegated_repository import DelegationSource, open_source_record
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.baseline import Baseline
from gitlab_nightshift.stages.work.bead_prompt import FailedAttempt
from gitlab_nightshift.stages.work.delegation.delegation_context import (
    Phase,
    Phases,
    build_fallback_note,
)
from gitlab_nightshift.stages.work.delegation.delegation_source import (
    DelegationWorkspace,
    make_workspace,
)
from gitlab_nightshift.stages.work.night import Night, draft_from_analysis
from gitlab_nightshift.stages.work.night_ending import CategoryResult, Ending
from gitlab_nightshift.stages.work.recording import Recorder
from gitlab_nightshift.stages.work.run_budget import Stop
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_stage import work
from gitlab_nightshift.stages.work.work_start import WorkResources, serve_work
from gitlab_nightshift.stages.work.workflows import (
    AgentSetup,
    TaskPolicy,
    Workflow,
    do_task,
    prepare_agent,
)

_PARSE_FAILURES = {BeadStatus.BAD_OUTPUT, BeadStatus.NO_HANDOFF}
"""Failures of a bead that the result reports as E_PARSE_ERROR."""
_PHASES_BY_STEP = {
    "implement": Phase.APPLY,
    "checks": Phase.VERIFY,
    "evidence": Phase.VERIFY,
    "verify": Phase.VERIFY,
}
"""The phase that a step of an attempt belongs to, by the first word of its key."""


@dataclass
class DelegationProgress:
    """Receives the events of work, enters the phases that they belong to, keeps what the report
    needs, and passes the events on.

    ``agent_started``: an agent's process has been started; ``exit_code`` is that of the last one.
    ``change`` is that of the last recorded attempt, even if it was undone (None: no attempt was
    recorded), ``last_message`` that of the last Implement. ``tests`` are the runs of the requested
    test.
    """

    emit: Emit
    phases: Phases
    workspace: DelegationWorkspace | None = None
    agent_started: bool = False
    exit_code: int | None = None
    change: CapturedChange | None = None
    last_message: str = ""
    tests: list[CommandResult] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        """Receive an event."""
        match event:
            case StepStarted(key=key) if phase := _PHASES_BY_STEP.get(key.partition("-")[0]):
                self.phases.enter(phase, int(key.rpartition("-")[2]))
            case ProgramStarted(command=command) if command.startswith(AGENT):
                self.agent_started = True
            case ProgramEnded(command=command) if command.startswith(AGENT):
                self.exit_code = event.exit_status
            case BeadEnded(result=result) if result.bead == "implement":
                self.last_message = result.said
            case CommandEnded(result=result):
                self.tests.append(result)
        self.emit(event)


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_work(
        _run_task, log_prefix=lambda inputs: "fallback-" if inputs["fallback_reason"] else ""
    )


def _run_task(resources: WorkResources, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Do the task, and report the outcome (``WorkReport``), be it a failure, a signal or a bug. The
    bundle of a proven change is stored, or else the last attempt's change as ``failed.patch``."""
    outlet, work_context = resources.outlet, resources.work_context
    if inputs["fallback_reason"]:  # the first agent could not be used
        outlet(build_fallback_note(str(inputs["fallback_reason"])))
    payload = make_record(Payload, inputs["payload"])
    source = open_source_record(inputs["source"], work_context.private)
    progress = DelegationProgress(work_context.emit, Phases(work_context.emit))
    workflow = _build_workflow(payload, source, Path(inputs["scratch"]), progress)
    work_context = dataclasses.replace(work_context, emit=progress)
    products: dict[str, bytes] = {}
    progress.phases.enter(Phase.APPLY)
    plan = make_record(Plan, inputs["plan"])
    bundle = work(plan, work_context, resources.gateway, products.__setitem__, workflow)
    progress.phases.leave(bundle.reason if bundle.error_code else "")
    if bundle.error_code:
        change = progress.change
        products = {"failed.patch": change.patch} if change and change.patch else {}
    for name, data in products.items():
        outlet.send_record(name, data)
    return dataclasses.asdict(_build_report(source, progress, bundle))


def _build_report(
    source: DelegationSource, progress: DelegationProgress, bundle: Bundle
) -> WorkReport:
    workspace, fall_back = progress.workspace, False
    if workspace and bundle.error_code == Code.PROVIDER_UNAVAILABLE:
        # Another agent can take over only if the workspace is known to be unchanged.
        with contextlib.suppress(GitError, NightshiftError):
            fall_back = not list_changed_files(source.machine_git, workspace.path)
    # Reported are the logs of the last Implement bead, or else of the last bead.
    beads = [bead for bead in bundle.beads if bead.bead == "implement"] or bundle.beads
    logs = beads[-1].logs if beads else ()
    test_result: TestResult = "skipped"
    if progress.tests:
        test_result = "passed" if progress.tests[-1].ok else "failed"
    return WorkReport(
        error_code=bundle.error_code,
        reason=bundle.reason,
        local=workspace is not None and workspace.has_local_changes,
        began=progress.agent_started,
        changed=progress.change is not None and not progress.change.empty,
        fall_back=fall_back,
        exit_code=progress.exit_code,
        test_result=test_result,
        said=progress.last_message,
        logs=tuple(Path(name).name.removesuffix(".gz") for name in logs),
    )


# --- what a delegation does differently from a night ---------------------------------------------


def _build_workflow(
    payload: Payload, source: DelegationSource, scratch: Path, progress: DelegationProgress
) -> Workflow:
    """The task in its workspace; a private one is created in ``scratch``."""

    def open_workspace(plan: Plan, work_context: WorkContext) -> tuple[Plan, WorkContext]:
        path = scratch / (source.top.name or "checkout")
        output_dir = work_context.settings.output_dir
        workspace = make_workspace(source, payload, plan.base_sha, path, output_dir)
        progress.workspace = workspace
        context = dataclasses.replace(work_context, checkout=workspace.path)
        return dataclasses.replace(plan, base_sha=workspace.base), context

    def build_baseline(work_context: WorkContext, _checkout: Checkout, _runner: Runner) -> Baseline:
        # Nothing is run: the task may be to fix the test.
        requested = work_context.verify.commands
        return Baseline(commands=requested, no_test_requested=not requested)

    return Workflow(
        run_baseline=build_baseline,
        run=lambda night: _do_task(night, progress),
        choose_checkout=open_workspace,
        prepare=lambda work_context: _prepare_agent(work_context, payload),
        runs_unscheduled=True,
    )


def _do_task(night: Night, progress: DelegationProgress) -> Ending:
    def end_attempt(night: Night, failed: FailedAttempt) -> None:
        progress.phases.leave(failed.why)
        # Raises Stop at a limit, before the next attempt's phase begins.
        night.bead_context.ledger.check()

    def end_failed(night: Night, stop: Stop, tried: Sequence[CategoryResult]) -> Ending:
        if not tried:  # a limit has stopped a bead, whose change is not recorded yet
            captured = night.checkout.capture()
            progress.change = progress.change if captured.empty else captured
        return _build_failed_ending(night, stop, tried)

    recorder = _ChangeRecorder(**vars(night.recorder), progress=progress)
    policy = TaskPolicy(
        on_failure=end_attempt,
        # No bead writes texts: the caller gets the agent's own words.
        write_draft=lambda _night, _category, analysis, _proven: draft_from_analysis(analysis),
        build_failed_ending=end_failed,
    )
    return do_task(dataclasses.replace(night, recorder=recorder), policy)


def _build_failed_ending(night: Night, stop: Stop, tried: Sequence[CategoryResult]) -> Ending:
    status = night.bead_context.ledger.results[-1].status if tried else None
    code = stop.code
    if status is BeadStatus.TIMEOUT:
        code = Code.TIMEOUT
    if status in _PARSE_FAILURES:
        code = Code.PARSE_ERROR
    return Ending(Outcome.FAILED, stop.reason, TASK, error_code=code.value if code else "")


@dataclass(frozen=True)
class _ChangeRecorder(Recorder):
    """A night's recorder that also keeps the last attempt's change for the report."""

    progress: DelegationProgress

    def record_change(
        self, result: BeadResult, captured: CapturedChange, repository: Repository
    ) -> None:
        self.progress.change = captured
        super().record_change(result, captured, repository)


class _CustomCodex(Codex):
    """Codex, started by ``debug.codex_command``. Its first word, the program, is in the settings
    already (``agent_executable``)."""

    def __init__(self, settings: Settings, command: tuple[str, ...]) -> None:
        super().__init__(settings)
        self._words = command[1:]

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The program, the command's other words, then the arguments for codex."""
        program, *args = super().build_bead_args(task, path)
        return [program, *self._words, *args]


def _prepare_agent(work_context: WorkContext, payload: Payload) -> AgentSetup:
    setup, command = prepare_agent(work_context), payload.debug.codex_command
    if not command or work_context.settings.agent != "codex":
        return setup
    return dataclasses.replace(setup, provider=_CustomCodex(work_context.settings, command))
