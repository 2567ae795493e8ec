"""The process that does a delegation's task as a night does one, in a workspace of its own: it runs
agents and reads what they write. It holds no secret, and sends its logs and products to the
redactor, one way.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.agent import BeadTask
from gitlab_nightshift.agents.codex import Codex
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
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
from gitlab_nightshift.records.handoffs import AnalysisResult, Draft
from gitlab_nightshift.records.products import Bundle, Outcome, Plan
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.changed_files import list_changed_files
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.delegated_repository import DelegationSource, open_source_record
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.attempt import ProvenChange
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
from gitlab_nightshift.stages.work.work_stage import Store, work
from gitlab_nightshift.stages.work.work_start import WorkResources, serve_work
from gitlab_nightshift.stages.work.workflows import (
    AgentSetup,
    TaskPolicy,
    Workflow,
    do_task,
    prepare_agent,
)

_UNREADABLE = {BeadStatus.BAD_OUTPUT, BeadStatus.NO_HANDOFF}


_PHASES = {
    "implement": Phase.APPLY,
    "checks": Phase.VERIFY,
    "evidence": Phase.VERIFY,
    "verify": Phase.VERIFY,
}
"""The phase that a step of an attempt belongs to, by the first word of its key."""


@dataclass
class DelegationProgress:
    """Receives the events of work, keeps what the report needs, and passes each on in its phase.

    ``change`` is what the last recorded attempt changed, even if that was undone, None if none was
    recorded; ``exit_code`` is the last agent process's; ``tests`` are the runs of the test that
    was asked for. ``agent_started``: an agent process has been started; ``last_message``: the last
    Implement's words on its change.
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
        """Note what the event tells, and pass it on."""
        match event:
            case StepStarted(key=key) if phase := _PHASES.get(key.partition("-")[0]):
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

    @property
    def changed(self) -> bool:
        """True if the last recorded attempt changed something."""
        return self.change is not None and not self.change.empty


@dataclass(frozen=True)
class DelegationTask:
    """A task and everything prepared for it; ``scratch`` is the folder for a private workspace."""

    payload: Payload
    source: DelegationSource
    plan: Plan
    work_context: WorkContext
    scratch: Path


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_work(
        _run_task, log_prefix=lambda inputs: "fallback-" if inputs["fallback_reason"] else ""
    )


def _run_task(resources: WorkResources, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Do the task; ``fallback_reason`` is why the first agent could not be used."""
    if inputs["fallback_reason"]:
        resources.outlet(build_fallback_note(str(inputs["fallback_reason"])))
    task = DelegationTask(
        payload=make_record(Payload, inputs["payload"]),
        source=open_source_record(inputs["source"], resources.work_context.private),
        plan=make_record(Plan, inputs["plan"]),
        work_context=resources.work_context,
        scratch=Path(inputs["scratch"]),
    )
    return dataclasses.asdict(
        do_delegated_task(task, resources.gateway, resources.outlet.send_record)
    )


def do_delegated_task(
    task: DelegationTask, gateway: RemoteGateway | None, store: Store
) -> WorkReport:
    """Work until the change is proven or has failed. Never raises: a failure, a signal or a bug
    is in the report. ``store`` gets the bundle of a proven change, or ``failed.patch``."""
    emit = task.work_context.emit
    progress = DelegationProgress(emit, Phases(emit))
    products = dict[str, bytes]()
    progress.phases.enter(Phase.APPLY)
    work_context = dataclasses.replace(task.work_context, emit=progress)
    workflow = _build_workflow(task, progress)
    bundle = work(task.plan, work_context, gateway, products.__setitem__, workflow)
    progress.phases.leave(bundle.reason if bundle.error_code else "")
    if bundle.error_code:
        change = progress.change
        products = {"failed.patch": change.patch} if change and change.patch else {}
    for name, data in products.items():
        store(name, data)
    return _build_report(task, progress, bundle)


def _build_report(task: DelegationTask, progress: DelegationProgress, bundle: Bundle) -> WorkReport:
    unavailable = bundle.error_code == Code.PROVIDER_UNAVAILABLE
    return WorkReport(
        error_code=bundle.error_code,
        reason=bundle.reason,
        local=progress.workspace is not None and progress.workspace.local,
        began=progress.agent_started,
        changed=progress.changed,
        fall_back=unavailable and _is_restored(task, progress),
        exit_code=progress.exit_code,
        test_result=_find_test_result(progress),
        said=progress.last_message,
        logs=_find_last_logs(bundle.beads),
    )


def _is_restored(task: DelegationTask, progress: DelegationProgress) -> bool:
    """True if the workspace is as it was, so that another agent can take over."""
    if progress.workspace is None:
        return False
    try:
        return not list_changed_files(task.source.machine_git, progress.workspace.path)
    except (GitError, NightshiftError):
        return False


def _find_test_result(progress: DelegationProgress) -> TestResult:
    if not progress.tests:
        return "skipped"
    return "passed" if progress.tests[-1].ok else "failed"


def _find_last_logs(beads: Sequence[BeadResult]) -> tuple[str, ...]:
    """The logs of the last Implement bead, else of the last bead."""
    implementing = [each for each in beads if each.bead == "implement"] or beads
    logs = implementing[-1].logs if implementing else ()
    return tuple(Path(name).name.removesuffix(".gz") for name in logs)


# --- what a delegation does differently from a night ---------------------------------------------


def _build_workflow(task: DelegationTask, progress: DelegationProgress) -> Workflow:
    """The work in a workspace of its own. The commands are not tried before it: the task may be to
    fix the test."""

    def open_workspace(plan: Plan, work_context: WorkContext) -> tuple[Plan, WorkContext]:
        path = task.scratch / (task.source.top.name or "checkout")
        output_dir = work_context.settings.output_dir
        workspace = progress.workspace = make_workspace(
            task.source, task.payload, plan.base_sha, path, output_dir
        )
        context = dataclasses.replace(work_context, checkout=workspace.path)
        return dataclasses.replace(plan, base_sha=workspace.base), context

    def build_baseline(work_context: WorkContext, _checkout: Checkout, _runner: Runner) -> Baseline:
        requested = work_context.verify.commands
        return Baseline(commands=requested, no_test_requested=not requested)

    return Workflow(
        baseline=build_baseline,
        run=lambda night: _do_task(night, progress),
        choose_checkout=open_workspace,
        prepare=lambda work_context: _prepare_tools(work_context, task.payload),
        any_day=True,
    )


def _do_task(night: Night, progress: DelegationProgress) -> Ending:
    def end_attempt(night: Night, failed: FailedAttempt) -> None:
        progress.phases.leave(failed.why)
        night.bead_context.ledger.check()  # raises Stop at a limit

    def end_failed(night: Night, stop: Stop, tried: Sequence[CategoryResult]) -> Ending:
        # Nothing tried: a limit stopped the bead, which may have changed something unrecorded.
        if not tried and not (now := night.checkout.capture()).empty:
            progress.change = now
        return _build_failed_ending(night, stop, tried)

    recorder = _ChangeRecorder(**vars(night.recorder), progress=progress)
    policy = TaskPolicy(
        on_failure=end_attempt, write_draft=_write_draft, build_failed_ending=end_failed
    )
    return do_task(dataclasses.replace(night, recorder=recorder), policy)


def _write_draft(
    _night: Night, _category: str, analysis: AnalysisResult, _proven: ProvenChange
) -> Draft:
    """No bead writes the texts: whoever delegates gets the agent's own words."""
    return draft_from_analysis(analysis)


def _build_failed_ending(night: Night, stop: Stop, tried: Sequence[CategoryResult]) -> Ending:
    status = night.bead_context.ledger.results[-1].status if tried else None
    code = stop.code
    if status is BeadStatus.TIMEOUT:
        code = Code.TIMEOUT
    if status in _UNREADABLE:
        code = Code.PARSE_ERROR
    return Ending(Outcome.FAILED, stop.reason, TASK, error_code=code.value if code else "")


@dataclass(frozen=True)
class _ChangeRecorder(Recorder):
    """Records as the night's recorder does, and keeps the last attempt's change."""

    progress: DelegationProgress

    def record_change(
        self, result: BeadResult, captured: CapturedChange, repository: Repository
    ) -> None:
        self.progress.change = captured
        super().record_change(result, captured, repository)


class _CustomCodex(Codex):
    """Codex, started as ``debug.codex_command``, whose first word is already in the settings."""

    def __init__(self, settings: Settings, words: tuple[str, ...]) -> None:
        super().__init__(settings)
        self._words = words[1:]

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The program, its own first arguments, then codex's."""
        program, *args = super().build_bead_args(task, path)
        return [program, *self._words, *args]


def _prepare_tools(work_context: WorkContext, payload: Payload) -> AgentSetup:
    """The agent and the templates, checked. Raises what ``prepare`` raises."""
    words = payload.debug.codex_command
    if not words or work_context.settings.agent != "codex":
        return prepare_agent(work_context)
    return dataclasses.replace(
        prepare_agent(work_context), provider=_CustomCodex(work_context.settings, words)
    )
