"""The dashboard issue in a run: its boxes are taken up by plan, and its page is written at the end.

A dashboard that cannot be read or written is a warning: no night fails by it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TypeVar

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.gitlab.issues import KeptIssue
from gitlab_nightshift.gitlab.memory import Memory
from gitlab_nightshift.gitlab.pipelines import APPROVE_JOB, MANUAL
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.records.dashboard_records import (
    MOST_ANSWERS,
    MOST_RESTORED,
    Dashboard,
    DashboardMemory,
    DashboardNight,
)
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.products import Outcome, Plan
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.override import override_settings
from gitlab_nightshift.stages.plan.category_outlook import list_categories, list_outlook
from gitlab_nightshift.stages.plan.plan_stage import read_earlier_nights
from gitlab_nightshift.stages.plan.schedule import find_pausing, resolve_run_day
from gitlab_nightshift.stages.plan.throttle import describe_pause
from gitlab_nightshift.stages.publish.dashboard_page import (
    START,
    TITLE,
    build_key,
    list_ticked,
    read_page,
    render_page,
)
from gitlab_nightshift.stages.publish.dashboard_ticks import (
    BoxTargets,
    Ticks,
    build_approve_box,
    find_ticking,
    read_ticks,
)

PATIENCE_S = 30.0
"""Seconds that a night waits for its dashboard."""
Made = TypeVar("Made")
SOURCE = "the dashboard"
LONGEST_LINE = 300


@dataclass(frozen=True)
class DashboardOrders:
    """What people want of this night: the session with the category that they ask for, and the
    rejected merge requests that may be proposed again. ``found`` are all boxes that are ticked,
    ``taken`` those of tonight."""

    session: Session
    restored: frozenset[int] = frozenset()
    found: Ticks = field(default_factory=Ticks)
    taken: Ticks = field(default_factory=Ticks)

    @property
    def category(self) -> str:
        """What is asked for tonight; "" for nothing."""
        return next((each.category for each in self.taken.valid if each.category), "")

    def keep_approvals(self) -> "DashboardOrders":
        """What is left of them for a night that is skipped."""
        enabled = self.session.settings.enabled
        valid = tuple(each for each in self.taken.valid if each.approve and enabled)
        return replace(self, taken=replace(self.taken, valid=valid))


@dataclass(frozen=True)
class _OpenDashboard:
    """An issue, None before the first night, and what this program keeps in it."""

    project: Project
    key: bytes
    issue: KeptIssue | None
    memory: DashboardMemory


def is_dashboard_written(session: Session) -> bool:
    """Whether this run may write one: a dry run and a rehearsal change nothing."""
    settings = session.settings
    return settings.log_issue != "off" and not (settings.dry_run or settings.rehearse)


def read_orders(session: Session, project: Project | None) -> DashboardOrders:
    """What the boxes ask for, by people who may; nothing where there is no dashboard."""
    made = DashboardOrders(session)
    if project is None or session.settings.log_issue == "off" or session.settings.rehearse:
        return made

    def read() -> DashboardOrders:
        there = _open(session, project)
        return _choose_orders(session, _read_ticks(session, there), there.memory)

    return _warn_on_failure(session, "read", read) or made


def _choose_orders(session: Session, ticks: Ticks, memory: DashboardMemory) -> DashboardOrders:
    """One category a night, the first that was ticked; the others wait for the next nights."""
    asked = session.settings.category or session.settings.task
    wanted = [each for each in ticks.valid if each.category]
    tonight = wanted[:1] if not asked else []
    others = [each for each in ticks.valid if not each.category]
    if tonight:
        values = {"category": tonight[0].category}
        session = replace(session, settings=override_settings(session.settings, values, SOURCE))
    restored = frozenset((*memory.restored, *(each.restore for each in others if each.restore)))
    return DashboardOrders(session, restored, ticks, replace(ticks, valid=(*tonight, *others)))


def _find_last_note(found: Ticks, taken: Ticks, memory: DashboardMemory) -> int:
    """Up to where GitLab's notes on ticks are used up: before the first that still waits."""
    waiting = [each.note.id for each in found.valid if each not in taken.valid]
    used = (each.note.id for each in taken.valid if all(each.note.id < one for one in waiting))
    return max(used, default=memory.last_note)


def confirm_orders(project: Project, orders: DashboardOrders, plan: Plan) -> None:
    """Start what is approved, empty the boxes that are taken up, or that count for nothing, and say
    so on the page."""
    session, ticks = orders.session, orders.taken
    if not (ticks.valid or ticks.refused) or not is_dashboard_written(session):
        return

    def confirm() -> None:
        there = _open(session, project)
        started = _start_approvals(project, ticks)
        done = {each.text for each in started.valid} | {text for text, _ in started.refused}
        answers = (
            *(f"{each.text}: accepted, ticked by {each.note.author}" for each in started.valid),
            *(f"{text}: not accepted, {why}" for text, why in started.refused),
        )
        restored = {*there.memory.restored, *(each.restore for each in started.valid)} - {0}
        memory = replace(
            there.memory,
            restored=tuple(sorted(restored))[-MOST_RESTORED:],
            last_note=_find_last_note(orders.found, ticks, there.memory),
            answers=tuple(text[:LONGEST_LINE] for text in answers)[:MOST_ANSWERS],
        )
        known = Memory(plan.open_merge_requests, plan.rejected_ideas, plan.merged_ideas)
        _write(session, replace(there, memory=memory), known, done)

    _warn_on_failure(session, "written", confirm)


def _start_approvals(project: Project, ticks: Ticks) -> Ticks:
    """Start the manual job of each pipeline whose change is approved. What that job may do GitLab
    decides by its protected environment, and the job by the tick itself."""
    refused = dict(ticks.refused)
    for each in ticks.valid:
        if each.approve and (why := _start_approval(project, each.approve)):
            refused[each.text] = why
    valid = tuple(each for each in ticks.valid if each.text not in refused)
    return Ticks(valid, tuple(refused.items()))


def _start_approval(project: Project, pipeline: str) -> str:
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
    """The login of the Developer whose tick approves the change of this pipeline; "" without one.
    GitLab's notes say it, and the last word of a person counts, not what this program empties."""
    if session.settings.log_issue == "off":
        return ""
    there, own = _open(session, project), project.check_access().user_id
    if there.issue is None:
        return ""
    known = [night for night in there.memory.nights if night.run_id == session.job.run_id]
    boxes = {text for night in known if (text := build_approve_box(night))}
    notes = project.issues.list_system_notes(there.issue.iid)
    by = find_ticking(boxes, (each for each in notes if each.author_id != own), 0)
    developers = project.people.find_developers(each.author_id for each in by.values())
    return next((each.author for each in by.values() if each.author_id in developers), "")


def update_dashboard(session: Session, result: RunResult) -> None:
    """Bring the page up to date after a night: its row, and what GitLab knows now."""
    settings, job = session.settings, session.job
    if not (is_dashboard_written(session) and session.secrets.gitlab_token):
        return
    if job.trigger_payload and result.outcome is Outcome.SKIPPED:
        return  # nobody asked for a night, and an edit of the page is the webhook's next event

    def update() -> None:
        project = session.open_project(PATIENCE_S)
        there = _open(session, project)
        night = _build_night(session, result)
        there = replace(there, memory=there.memory.add_night(night))
        known = read_earlier_nights(settings, project).restore(there.memory.restored)
        _write(session, there, known, frozenset())

    _warn_on_failure(session, "written", update)


def read_kept_nights(project: Project, token: str, wanted: int | str) -> tuple[DashboardNight, ...]:
    """The nights that the dashboard remembers; none where there is no dashboard, or another token
    has written it. ``wanted`` is ``log_issue``. Raises NightshiftError."""
    if wanted == "off":
        return ()
    return _read_issue(project, token, wanted, project.threads.read_own_id()).memory.nights


def _warn_on_failure(session: Session, what: str, call: Callable[[], Made]) -> Made | None:
    try:
        return call()
    except NightshiftError as error:
        session.emit(Note(f"the dashboard could not be {what}: {error.message}", warning=True))
        return None


# --- the issue ------------------------------------------------------------------------------------


def _open(session: Session, project: Project) -> _OpenDashboard:
    own = project.check_access().user_id
    return _read_issue(project, session.secrets.gitlab_token, session.settings.log_issue, own)


def _read_issue(project: Project, token: str, wanted: int | str, own: int) -> _OpenDashboard:
    if isinstance(wanted, int):
        issue = project.issues.find(wanted)
        if issue is None:
            raise build_config_error(f"log_issue: there is no issue {wanted}")
    else:
        issue = project.issues.find_own(own, START)
    key = build_key(token, project.facts.id)
    kept = read_page(issue.description, key) if issue else None
    return _OpenDashboard(project, key, issue, kept or DashboardMemory())


def _read_ticks(session: Session, there: _OpenDashboard) -> Ticks:
    ticked = list_ticked(there.issue.description) if there.issue else frozenset()
    if not there.issue or not ticked:
        return Ticks()
    notes = there.project.issues.list_system_notes(there.issue.iid)
    by = find_ticking(ticked, notes, there.memory.last_note)
    developers = there.project.people.find_developers(each.author_id for each in by.values())
    targets = BoxTargets(list_categories(session.settings), there.memory.nights)
    return read_ticks(ticked, by, developers, targets)


def _write(
    session: Session, there: _OpenDashboard, known: Memory, done: frozenset[str] | set[str]
) -> None:
    """Write the page; boxes that are ticked stay so, but for those that are ``done``."""
    day, issue, settings = _resolve_day(session), there.issue, session.settings
    public = there.project.facts.visibility == "public"
    pausing = find_pausing(settings, known, day)
    dashboard = Dashboard(
        there.memory,
        known.opened,
        known.rejected,
        list_outlook(settings, known, day, public=public),
        describe_pause(pausing) if pausing else "",
        known.unknown,
    )
    before = issue.description if issue else ""
    page = session.redact(render_page(dashboard, there.key, before, list_ticked(before) - done))
    if issue is None:
        there.project.issues.open_issue(TITLE, page, confidential=public)
    elif page != before:
        there.project.issues.edit_description(issue.iid, page)


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
