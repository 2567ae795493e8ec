"""The dashboard issue: plan acts on its ticked boxes, and the run updates its page at the end.

A dashboard that cannot be read or written is only a warning.
"""

import math
from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TypeVar

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.history import Memory
from gitlab_nightshift.gitlab.issues import Issue
from gitlab_nightshift.gitlab.pipelines import APPROVE_JOB, MANUAL
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.history_records import (
    MOST_ANSWERS,
    MOST_RESTORED,
    Dashboard,
    DashboardMemory,
    DashboardNight,
)
from gitlab_nightshift.records.products import Outcome, Plan
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.load import override_settings
from gitlab_nightshift.stages.plan.plan_stage import read_earlier_nights
from gitlab_nightshift.stages.plan.schedule import (
    describe_pause,
    find_blockers,
    list_categories,
    list_outlook,
    resolve_run_day,
)
from gitlab_nightshift.stages.publish.dashboard_page import (
    START,
    TITLE,
    BoxTargets,
    Ticks,
    build_approve_box,
    build_key,
    find_tick_notes,
    list_ticked,
    read_page,
    read_ticks,
    render_page,
)

UPDATE_PATIENCE_S = 30.0
"""How long failing requests for the update at the end are retried."""
SOURCE = "the dashboard"
"""The source of settings that a ticked box requests, in messages."""
LONGEST_LINE = 300
"""Characters of each text in the dashboard's data."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class DashboardOrders:
    """What people ask for by ticking boxes on the dashboard. ``session`` has the requested
    category; ``restored`` are the numbers of rejected merge requests whose ideas may be proposed
    again. ``accepted`` are those of ``all_ticks`` that this run acts on."""

    session: Session
    restored: frozenset[int] = frozenset()
    all_ticks: Ticks = field(default_factory=Ticks)
    accepted: Ticks = field(default_factory=Ticks)

    @property
    def category(self) -> str:
        """The requested category; "" for none."""
        return next((tick.category for tick in self.accepted.valid if tick.category), "")

    def keep_approvals(self) -> "DashboardOrders":
        """A copy that accepts only approvals, for a skipped night."""
        enabled = self.session.settings.enabled
        valid = tuple(tick for tick in self.accepted.valid if tick.approve_pipeline and enabled)
        return replace(self, accepted=replace(self.accepted, valid=valid))


@dataclass(frozen=True)
class _OpenDashboard:
    """The dashboard's issue, None before the first night, and its data, signed with ``key``."""

    project: Project
    key: bytes
    issue: Issue | None
    memory: DashboardMemory


def is_dashboard_written(session: Session) -> bool:
    """True if this run writes the dashboard: dry runs and rehearsals change nothing."""
    settings = session.settings
    return settings.log_issue != "off" and not (settings.dry_run or settings.rehearse)


def read_orders(session: Session, project: Project | None) -> DashboardOrders:
    """The boxes ticked by authorized people; empty without a dashboard."""
    orders = DashboardOrders(session)
    if project is None or session.settings.log_issue == "off" or session.settings.rehearse:
        return orders

    def read() -> DashboardOrders:
        dashboard = _open(session, project)
        return _choose_orders(session, _read_ticks(session, dashboard), dashboard.memory)

    return _warn_on_failure(session, "read", read) or orders


def _choose_orders(session: Session, ticks: Ticks, memory: DashboardMemory) -> DashboardOrders:
    """Accept one category a night, the first that was ticked; the others wait for later nights."""
    is_chosen = session.settings.category or session.settings.task
    categories = [tick for tick in ticks.valid if tick.category]
    tonight = categories[:1] if not is_chosen else []
    others = [tick for tick in ticks.valid if not tick.category]
    if tonight:
        values = {"category": tonight[0].category}
        session = replace(session, settings=override_settings(session.settings, values, SOURCE))
    restored = frozenset(
        (*memory.restored, *(tick.restore_iid for tick in others if tick.restore_iid))
    )
    return DashboardOrders(session, restored, ticks, replace(ticks, valid=(*tonight, *others)))


def _find_last_note(all_ticks: Ticks, accepted: Ticks, memory: DashboardMemory) -> int:
    """The id of the last system note before the first waiting tick: later nights read on there."""
    waiting = (tick.note.id for tick in all_ticks.valid if tick not in accepted.valid)
    first_waiting = min(waiting, default=math.inf)
    handled = (tick.note.id for tick in accepted.valid if tick.note.id < first_waiting)
    return max(handled, default=memory.last_note)


def confirm_orders(project: Project, orders: DashboardOrders, plan: Plan) -> None:
    """Start approved jobs, clear the boxes that were accepted or refused, and list them on the
    page."""
    session, ticks = orders.session, orders.accepted
    if not (ticks.valid or ticks.refused) or not is_dashboard_written(session):
        return

    def confirm() -> None:
        dashboard = _open(session, project)
        started = _start_approvals(project, ticks)
        cleared = {tick.text for tick in started.valid} | {text for text, _ in started.refused}
        answers = (
            *(f"{tick.text}: accepted, ticked by {tick.note.author}" for tick in started.valid),
            *(f"{text}: not accepted, {why}" for text, why in started.refused),
        )
        restored = {*dashboard.memory.restored, *(tick.restore_iid for tick in started.valid)} - {0}
        memory = replace(
            dashboard.memory,
            restored=tuple(sorted(restored))[-MOST_RESTORED:],
            last_note=_find_last_note(orders.all_ticks, ticks, dashboard.memory),
            answers=tuple(text[:LONGEST_LINE] for text in answers)[:MOST_ANSWERS],
        )
        gitlab_memory = Memory(plan.open_merge_requests, plan.rejected_ideas, plan.merged_ideas)
        _write_page(session, replace(dashboard, memory=memory), gitlab_memory, cleared)

    _warn_on_failure(session, "written", confirm)


def _start_approvals(project: Project, ticks: Ticks) -> Ticks:
    """Start the manual job of each approved pipeline. GitLab checks the job's protected
    environment, and the job checks the tick again."""
    refused = dict(ticks.refused)
    for tick in ticks.valid:
        if tick.approve_pipeline and (why := _start_approval(project, tick.approve_pipeline)):
            refused[tick.text] = why
    valid = tuple(tick for tick in ticks.valid if tick.text not in refused)
    return Ticks(valid, tuple(refused.items()))


def _start_approval(project: Project, pipeline: str) -> str:
    """Start the pipeline's manual job. Returns why that failed, "" on success."""
    try:
        jobs = project.pipelines.list_jobs(pipeline)
        waiting = [job for job in jobs if (job.name, job.status) == (APPROVE_JOB, MANUAL)]
        if not waiting:
            return f"no job {APPROVE_JOB} waits in pipeline {pipeline}"
        project.pipelines.play(waiting[-1].id)
    except NightshiftError as error:
        return f"{APPROVE_JOB} could not be started: {error.message}"
    return ""


def find_ticking_approver(session: Session, project: Project) -> str:
    """The login of the Developer whose tick approves this pipeline's change; "" without one."""
    if session.settings.log_issue == "off":
        return ""
    dashboard, own_id = _open(session, project), project.check_access().user_id
    if dashboard.issue is None:
        return ""
    nights = [night for night in dashboard.memory.nights if night.run_id == session.job.run_id]
    boxes = {text for night in nights if (text := build_approve_box(night))}
    notes = project.issues.list_system_notes(dashboard.issue.iid)
    # This program has cleared the box since then: the last change by a person counts.
    by_people = (note for note in notes if note.author_id != own_id)
    ticks = find_tick_notes(boxes, by_people, 0).values()
    developers = project.people.find_developers(note.author_id for note in ticks)
    return next((note.author for note in ticks if note.author_id in developers), "")


def update_dashboard(session: Session, result: RunResult) -> None:
    """Update the page after a night: add its row, and read everything else from GitLab."""
    settings, job = session.settings, session.job
    if not (is_dashboard_written(session) and session.secrets.gitlab_token):
        return
    if job.trigger_payload and result.outcome is Outcome.SKIPPED:
        return  # editing the page triggers the webhook again: an endless loop of pipelines

    def update() -> None:
        project = session.open_project(UPDATE_PATIENCE_S)
        dashboard = _open(session, project)
        night = _build_night(session, result)
        dashboard = replace(dashboard, memory=dashboard.memory.add_night(night))
        gitlab_memory = read_earlier_nights(settings, project).drop_rejections(
            dashboard.memory.restored
        )
        _write_page(session, dashboard, gitlab_memory, frozenset())

    _warn_on_failure(session, "written", update)


def read_dashboard_nights(
    project: Project, token: str, log_issue: int | str
) -> tuple[DashboardNight, ...]:
    """The nights on the dashboard; empty without a dashboard, or if it was signed with another
    token. Raises NightshiftError."""
    if log_issue == "off":
        return ()
    return _read_issue(project, token, log_issue, project.threads.read_own_id()).memory.nights


def _warn_on_failure(session: Session, what: str, action: Callable[[], Result]) -> Result | None:
    """Return the result of ``action``. If it fails, warn that the dashboard could not be ``what``
    ("read" or "written"), and return None."""
    try:
        return action()
    except NightshiftError as error:
        session.emit(Note(f"the dashboard could not be {what}: {error.message}", warning=True))
        return None


# --- the issue ------------------------------------------------------------------------------------


def _open(session: Session, project: Project) -> _OpenDashboard:
    own_id = project.check_access().user_id
    return _read_issue(project, session.secrets.gitlab_token, session.settings.log_issue, own_id)


def _read_issue(project: Project, token: str, log_issue: int | str, own_id: int) -> _OpenDashboard:
    if isinstance(log_issue, int):
        issue = project.issues.find(log_issue)
        if issue is None:
            raise build_config_error(f"log_issue: there is no issue {log_issue}")
    else:
        issue = project.issues.find_own(own_id, START)
    key = build_key(token, project.facts.id)
    memory = read_page(issue.description, key) if issue else None
    return _OpenDashboard(project, key, issue, memory or DashboardMemory())


def _read_ticks(session: Session, dashboard: _OpenDashboard) -> Ticks:
    ticked = list_ticked(dashboard.issue.description) if dashboard.issue else frozenset()
    if not dashboard.issue or not ticked:
        return Ticks()
    notes = dashboard.project.issues.list_system_notes(dashboard.issue.iid)
    notes_by_box = find_tick_notes(ticked, notes, dashboard.memory.last_note)
    authors = (note.author_id for note in notes_by_box.values())
    developers = dashboard.project.people.find_developers(authors)
    targets = BoxTargets(list_categories(session.settings), dashboard.memory.nights)
    return read_ticks(ticked, notes_by_box, developers, targets)


def _write_page(
    session: Session,
    dashboard: _OpenDashboard,
    gitlab_memory: Memory,
    cleared: Set[str],
) -> None:
    """Write the page; ticked boxes stay ticked, except those whose texts are in ``cleared``."""
    day, issue, settings = _resolve_day(session), dashboard.issue, session.settings
    public = dashboard.project.facts.visibility == "public"
    pausing = find_blockers(settings, gitlab_memory, day)
    content = Dashboard(
        dashboard.memory,
        gitlab_memory.open,
        gitlab_memory.rejected,
        list_outlook(settings, gitlab_memory, day, public=public),
        describe_pause(pausing) if pausing else "",
        gitlab_memory.unknown,
    )
    old = issue.description if issue else ""
    page = session.redact(render_page(content, dashboard.key, old, list_ticked(old) - cleared))
    if issue is None:
        dashboard.project.issues.open_issue(TITLE, page, confidential=public)
    elif page != old:
        dashboard.project.issues.edit_description(issue.iid, page)


def _resolve_day(session: Session) -> date:
    created, zone = session.job.pipeline_created_at, session.settings.timezone
    return resolve_run_day(created, zone, datetime.now(UTC))


def _build_night(session: Session, result: RunResult) -> DashboardNight:
    text = result.title if result.mr_url else result.reason
    return DashboardNight(
        run_id=result.run_id[:LONGEST_LINE],
        day=str(_resolve_day(session)),
        outcome=result.outcome,
        category=result.category_used[:LONGEST_LINE],
        text=session.redact(text)[:LONGEST_LINE],
        mr_url=result.mr_url[:LONGEST_LINE],
        pipeline_url=session.job.pipeline_url[:LONGEST_LINE],
        cost_usd=result.total_cost_usd,
        duration_s=result.total_duration_s,
    )
