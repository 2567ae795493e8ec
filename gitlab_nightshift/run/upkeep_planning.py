"""Plans the upkeep of an open merge request of an earlier night, before new work."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.memory import Memory
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.products import KnownMergeRequest, Plan
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.storage import UPKEEP, read_record, write_record
from gitlab_nightshift.run.comment_runs import take_up_request, tell_taken_up
from gitlab_nightshift.run.publishing import read_checkout_facts
from gitlab_nightshift.run.work_setup import find_verify_commands
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.plan_stage import add_findings, make_plan
from gitlab_nightshift.stages.plan.upkeep import (
    find_upkeep,
    find_waiting,
    read_gitlab_time,
    rebase_conflicting,
)


def find_upkeep_request(
    session: Session, project: Project, opened: Iterable[KnownMergeRequest]
) -> tuple[TaskRequest | None, tuple[str, ...]]:
    """Rebase merge requests in conflict. The request for one that needs another commit, if any, and
    notes for the plan. Failures are notes, too."""
    notes: list[str] = []
    try:
        waiting = find_waiting(project, opened, session.job.run_id)
        notes += rebase_conflicting(project, waiting)
        now = read_gitlab_time(session.job.pipeline_created_at)
        request = find_upkeep(project, waiting, session.redact, now)
    except ApiError as error:
        return None, (*notes, f"open merge requests could not be looked after: {error}")
    return request, tuple(notes)


@dataclass(frozen=True)
class PlannedUpkeep:
    """An upkeep's own plan and session."""

    session: Session
    plan: Plan


@contextlib.contextmanager
def plan_upkeep(
    session: Session, project: Project | None, memory: Memory, request: TaskRequest | None
) -> Iterator[PlannedUpkeep | None]:
    """Write ``upkeep/plan.json``. Within the block the merge request's branch is checked out. None
    if nothing is to do, or if it fails, with a warning."""
    if project is None or request is None:
        yield None
        return
    with contextlib.ExitStack() as stack:
        try:
            request_session = stack.enter_context(take_up_request(session, request))
            upkeep = _plan_request(request_session, project, memory, request)
        except NightshiftError as error:
            session.emit(Note(f"no upkeep of !{request.place.iid}: {error.message}", warning=True))
            upkeep = None
        yield upkeep


def _plan_request(
    session: Session, project: Project, memory: Memory, request: TaskRequest
) -> PlannedUpkeep | None:
    facts = read_checkout_facts(session)
    commands = find_verify_commands(session, request).commands
    plan = make_plan(session.settings, session.job, facts, project, memory, commands)
    plan = replace(add_findings(plan, session.settings, facts, ()), request=request)
    if not tell_taken_up(session, plan, request):  # uncounted, it would be repeated every night
        session.emit(Note(f"no upkeep of !{request.place.iid}, which could not be told"))
        return None
    (session.results / UPKEEP).mkdir()
    write_record(session.results / UPKEEP / "plan.json", plan)
    session.emit(Note(f"before new work: {request.upkeep} of !{request.place.iid}"))
    return PlannedUpkeep(session, plan)


def read_upkeep_plan(night: Plan, file: Path) -> Plan | None:
    """The upkeep plan of the same run, beside the night's plan ``file``; None without one."""
    place = file.parent / UPKEEP / "plan.json"
    plan = read_record(Plan, place) if place.exists() else None
    return plan if plan and plan.run_id == night.run_id else None
