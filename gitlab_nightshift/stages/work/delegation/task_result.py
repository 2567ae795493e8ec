"""Does a task: makes the workspace, lets agents change it, and proves what they did."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.records.delegation_records import Payload, TestResult, WorkReport
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.repository import changed_files
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.stages.work.delegation.agent_program import prepare_tools
from gitlab_nightshift.stages.work.delegation.delegated_task import build_workflow
from gitlab_nightshift.stages.work.delegation.delegation_workspace import (
    DelegationWorkspace,
    make_workspace,
)
from gitlab_nightshift.stages.work.delegation.phases import DelegationProgress, Phase, Phases
from gitlab_nightshift.stages.work.night_bundle import build_bundle, encode_bundle
from gitlab_nightshift.stages.work.night_ending import Ending, run_to_ending
from gitlab_nightshift.stages.work.run_budget import Ledger, open_ledger
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_stage import Keep, run_workflow


@dataclass(frozen=True)
class DelegationTask:
    """A task with all that was prepared for it; a private workspace is made in ``scratch``.
    ``place`` is the caller's checkout until there is one."""

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
    """Work until the change is proven, or cannot be. Never raises: a failure, a signal or a defect
    is in the report. ``keep`` gets the bundle of a proven change, or ``failed.patch``."""
    started, work_context = read_clock(), task.work_context
    known = _WorkState(
        DelegationProgress(),
        Phases(work_context.emit),
        open_ledger(task.plan, work_context.seconds),
    )
    known.phases.enter(Phase.APPLY)
    disks = (work_context.private, work_context.checkout)
    ending = run_to_ending(
        task.plan, work_context.logs, disks, lambda: _run_in_workspace(task, known, gateway, disks)
    )
    known.phases.leave(ending.reason if ending.error_code else "")
    if ending.captured and not ending.error_code:
        bundle = build_bundle(task.plan, ending, known.ledger, read_clock() - started)
        keep("bundle/change.patch", ending.captured.patch)
        keep("bundle/bundle.json", encode_bundle(bundle))
    elif (change := known.progress.change) and change.patch:
        keep("failed.patch", change.patch)
    return _build_result(known, ending)


def _run_in_workspace(
    task: DelegationTask, known: _WorkState, gateway: RemoteGateway | None, disks: tuple[Path, ...]
) -> Ending:
    output_dir = task.work_context.settings.output_dir
    path = task.scratch / (task.source.top.name or "checkout")
    workspace = known.workspace = make_workspace(
        task.source, task.payload, task.plan.base_sha, path, output_dir
    )
    plan = dataclasses.replace(task.plan, base_sha=workspace.base)
    work_context = dataclasses.replace(task.work_context, checkout=workspace.path)
    workflow = build_workflow(known.phases, known.progress)

    def prepare_and_run() -> Ending:
        tools = prepare_tools(work_context, task.payload)
        return run_workflow(plan, work_context, tools, known.ledger, workflow, gateway)

    ending = run_to_ending(plan, work_context.logs, disks, prepare_and_run)
    if ending.error_code == Code.PROVIDER_UNAVAILABLE:
        known.fall_back = not changed_files.list_changed_files(task.source.machine, workspace.path)
    return ending


def _build_result(known: _WorkState, ending: Ending) -> WorkReport:
    progress, workspace = known.progress, known.workspace
    return WorkReport(
        error_code=ending.error_code,
        reason=ending.reason,
        local=workspace is not None and workspace.local,
        began=progress.began,
        changed=progress.changed,
        fall_back=known.fall_back,
        exit_code=progress.exit_code,
        test_result=_find_test_result(progress),
        said=progress.said,
        logs=_find_last_logs(known.ledger),
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
