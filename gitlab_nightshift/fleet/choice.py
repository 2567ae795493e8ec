"""Chooses tonight's projects, by GitLab's answers and ``fleet.yaml``. Pure functions."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from gitlab_nightshift.fleet.discovery import FleetCosts, build_key, find_limit
from gitlab_nightshift.fleet.fleet_dashboard import NOTHING_OFF, Switches
from gitlab_nightshift.fleet.fleet_settings import (
    FleetFile,
    FleetSettings,
    NightWindow,
    compute_project_hash,
    find_month_start,
    find_window,
    parse_moment,
)
from gitlab_nightshift.records.fleet_records import (
    Discovery,
    FleetMergeRequest,
    FleetNight,
    FleetPlan,
    FleetProject,
    PlannedProject,
    StartDecision,
)
from gitlab_nightshift.records.history_records import IGNORED_AFTER
from gitlab_nightshift.settings.notations import WEEKDAYS

RECENT_WITHIN = dt.timedelta(days=28)
"""Newer nights count when projects are ranked."""
OWN_SCHEDULE_WITHIN = dt.timedelta(days=8)
"""If a project's last night is older, it counts as having no schedule of its own."""
OWN_ACTIVITY_WITHIN = dt.timedelta(hours=1)
"""Activity so soon after a night is the night's own: its branch, its merge request."""
_NOT_A_USER = (":", "code_owners", "approval_rules")
"""What an entry of ``reviewers`` contains if it is not a user: ``group:PATH``, or a rule."""


@dataclass
class _Tally:
    """The use of each limit so far: USD, running nights, and nights by group and reviewer. Of the
    USD, ``reserved`` is the part that no night has spent yet."""

    spent_night: float = 0.0
    spent_month: float = 0.0
    running: int = 0
    reserved: float = 0.0
    groups: Counter[str] = field(default_factory=Counter)
    reviewers: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class FleetChoice:
    """The facts for the decisions about all projects; ``account`` is the user who plays the
    schedules."""

    settings: FleetSettings
    window: NightWindow
    now: dt.datetime
    account: str
    costs: FleetCosts
    switches: Switches = NOTHING_OFF


def choose_tonight(
    settings: FleetSettings,
    discovery: Discovery,
    costs: FleetCosts,
    now: dt.datetime,
    pending: frozenset[int] = frozenset(),
    switches: Switches = NOTHING_OFF,
) -> FleetPlan:
    """The plan for the open window, or for the next one. ``pending`` are the ids of projects that
    jobs of the last plan may still start."""
    account = settings.account or discovery.account
    choice = FleetChoice(settings, find_window(settings, now), now, account, costs, switches)
    tally = _count_use(choice, discovery.projects)
    # At first all rows without limits: pending nights use the limits before any other is started.
    rows = {
        project.id: _decide_without_limits(choice, tally, project, pending)
        for project in discovery.projects
    }
    candidates = [project for project in discovery.projects if rows[project.id] is None]
    for project in sorted(candidates, key=lambda project: rank(project, now)):
        rows[project.id] = _decide_within_limits(choice, tally, project)
    return _build_plan(choice, tally, discovery, tuple(row for row in rows.values() if row))


def _decide_without_limits(
    choice: FleetChoice, tally: _Tally, project: FleetProject, pending: frozenset[int]
) -> PlannedProject | None:
    """The row of a project whose night does not depend on the limits; None if a night is due and
    the limits decide."""
    if reason := find_obstacle(choice, project):
        return _build_row(choice, project, "no", reason)
    if tonight := list_nights_tonight(choice, project):
        return _build_row(choice, project, "started", _describe_pipeline(choice, tonight))
    if project.id in pending:
        _reserve(choice, tally, project)
        tally.running += 1
        return _build_row(choice, project, "wait", "the last plan may just be starting it")
    reason = explain_not_due(choice, project)
    return _build_row(choice, project, "no", reason) if reason else None


def _build_plan(
    choice: FleetChoice, tally: _Tally, discovery: Discovery, rows: tuple[PlannedProject, ...]
) -> FleetPlan:
    window, costs = choice.window, choice.costs
    running = [night for each in discovery.projects for night in each.nights if night.running]
    return FleetPlan(
        night=window.night.isoformat(),
        made_at=choice.now.isoformat(timespec="seconds"),
        window_start=window.start.isoformat(),
        window_end=window.end.isoformat(),
        account=choice.account,
        spent_night_usd=round(tally.spent_night - tally.reserved, 4),
        spent_month_usd=round(tally.spent_month - tally.reserved, 4),
        reserved_usd=round(tally.reserved, 4),
        running=len(running),
        projects=rows,
        costs=tuple(costs.ended.values()),
        unknown=(
            *(f"whether a Maintainer wants this: {text}" for text in choice.switches.refused),
            *discovery.unknown,
            *costs.unknown,
            *_list_unknown(choice.settings, discovery),
        ),
    )


def _describe_pipeline(choice: FleetChoice, tonight: list[FleetNight]) -> str:
    newest = tonight[0]
    text = f"pipeline {newest.pipeline} is {newest.status}"
    # GitLab's statuses before a runner has taken a job (docs.gitlab.com/api/pipelines).
    waits = newest.status in ("created", "pending", "preparing", "waiting_for_resource")
    if waits and parse_moment(newest.created) < choice.now - dt.timedelta(hours=1):
        text += ", for an hour already: does the project have a free runner?"
    return text


def list_unpayable(file: FleetFile, discovery: Discovery) -> Iterator[str]:
    """A line for each budget that cannot pay for a single night."""
    settings = file.settings
    limits = [find_limit(each, settings) for each in discovery.projects if each.set_up]
    for name in ("night_usd", "month_usd"):
        budget = getattr(settings.budget, name)
        if limits and budget is not None and budget < min(limits):
            text = f"${budget:g} cannot pay for one night: the lowest limit is ${min(limits):g}"
            yield f"{file.find_place('budget', name)}: budget.{name}: {text}"


def find_exclusion(fleet: FleetSettings, project: FleetProject) -> str:
    """Why a project is not in the fleet; "" if it is."""
    settings = project.settings
    reasons: tuple[tuple[bool | None, str], ...] = (
        (project.deleted, "marked for deletion"),
        (project.archived, "archived"),
        (bool(settings.error), settings.error),
        (project.empty, "its repository is empty, or the token may not read it"),
        (project.forked, "a fork"),
        (fleet.opt_out_topic in project.topics, "opted out by its topic"),
        (not settings.enabled, "opted out by enabled: false in its nightshift.yaml"),
    )
    return next((text for holds, text in reasons if holds), "")


def find_obstacle(choice: FleetChoice, project: FleetProject) -> str:
    """Why a project cannot have nights; "" if it can."""
    if exclusion := find_exclusion(choice.settings, project):
        return exclusion
    if project.included is False:
        return "not set up: its .gitlab-ci.yml lacks the template"
    if not project.settings.found:
        return "not set up: no nightshift.yaml"
    return choice.switches.find_reason(project.path)


def explain_not_due(choice: FleetChoice, project: FleetProject) -> str:
    """Why no night is due tonight; "" if a night is due."""
    return next(_list_reasons_not_due(choice, project), "")


def _list_reasons_not_due(choice: FleetChoice, project: FleetProject) -> Iterator[str]:
    if choice.window.night in choice.settings.quiet_dates:
        yield f"{choice.window.night} is a quiet date"
    yield from _list_project_rules(choice, project)
    last = project.nights[0] if project.nights else None
    if last is None:
        return
    if owner := _find_own_schedule(choice, project):
        yield f"its own schedule runs nights, by @{owner}: the fleet only counts them"
    cadence = choice.settings.find_cadence(project.path)
    nights_ago = (choice.window.night - _find_window_date(choice, last)).days
    if cadence == "weekly" and nights_ago < 7:
        yield f"weekly: its last night was {_find_window_date(choice, last)}"
    last_work = parse_moment(project.last_activity) - OWN_ACTIVITY_WITHIN
    if cadence == "when active" and last_work <= parse_moment(last.finished or last.created):
        yield f"when active: nothing has happened since its last night, {last.created[:10]}"


def _list_project_rules(choice: FleetChoice, project: FleetProject) -> Iterator[str]:
    """Reasons for which the project's own settings would skip its night."""
    import zoneinfo

    settings = project.settings
    opened = [each.state for each in project.merge_requests].count("opened")
    if opened >= settings.max_open:
        yield f"open night-shift merge requests: {opened}; its limit is {settings.max_open}"
    try:
        zone = zoneinfo.ZoneInfo(settings.timezone)
    except (ValueError, OSError):  # an invalid time zone: the night itself reports it
        return
    # A night's weekday is that of its start, which may be after midnight.
    day = max(choice.now, choice.window.find_hour(project.id)).astimezone(zone)
    if WEEKDAYS[day.weekday()] not in settings.weekdays:
        yield f"its category_schedule has no {WEEKDAYS[day.weekday()]}"


def _find_own_schedule(choice: FleetChoice, project: FleetProject) -> str:
    """The owner of the project's own schedule; "" for none. It has one if the last two nights are
    of the same user, and not of the fleet's account."""
    # A single night may be somebody's run by hand; two in a row come from a schedule.
    users = [night.user for night in project.nights[:2]]
    is_recent = parse_moment(project.nights[0].created) > choice.now - OWN_SCHEDULE_WITHIN
    is_own = len(users) == 2 and users[0] == users[1] and users[0] != choice.account
    return users[0] if is_own and is_recent else ""


def _find_window_date(choice: FleetChoice, night: FleetNight) -> dt.date:
    """The date of a night's window, or of the next window if it began outside of one."""
    return find_window(choice.settings, parse_moment(night.created)).night


def list_nights_tonight(choice: FleetChoice, project: FleetProject) -> list[FleetNight]:
    """A project's nights since the window opened, newest first."""
    return [each for each in project.nights if parse_moment(each.created) >= choice.window.start]


def rank(project: FleetProject, now: dt.datetime) -> tuple[int, float, str, int]:
    """The sort key of a project: the fewest recent nights first, then the best merge rate, then the
    longest time without a night."""
    start = now - RECENT_WITHIN
    recent = [night for night in project.nights if parse_moment(night.created) > start]
    last = project.nights[0].created if project.nights else ""
    return (
        len(recent),
        -estimate_merged(project.merge_requests, now),
        last,
        compute_project_hash("rank", project.id),
    )


def estimate_merged(requests: tuple[FleetMergeRequest, ...], now: dt.datetime) -> float:
    """The estimated merge rate, from 0 to 1; the fewer merge requests, the closer to a half. Open
    ones count only if people ignore them, as not merged."""
    merged = [each for each in requests if each.state == "merged"]
    counted = [
        each
        for each in requests
        if each.state != "opened" or parse_moment(each.created) < now - IGNORED_AFTER
    ]
    # Laplace's rule of succession: 1/2 without data, 2/3 with one merged of one.
    return (len(merged) + 1) / (len(counted) + 2)


def list_reviewers(project: FleetProject) -> tuple[str, ...]:
    """Likely reviewers: the users in its settings, else those of its last merge request."""
    users = [
        name for name in project.settings.reviewers if not any(part in name for part in _NOT_A_USER)
    ]
    if users:
        return tuple(users)
    return next((each.reviewers for each in project.merge_requests if each.reviewers), ())


def _count_use(choice: FleetChoice, projects: tuple[FleetProject, ...]) -> _Tally:
    """The use of the limits by earlier nights and open merge requests."""
    tally, month_start = _Tally(), find_month_start(choice.settings, choice.window)
    counted: set[str] = set()
    for project in projects:
        opened = [each for each in project.merge_requests if each.state == "opened"]
        tally.reviewers.update(name for each in opened for name in each.reviewers)
        tonight = list_nights_tonight(choice, project)
        for night in project.nights:
            usd = choice.costs.count(project, night, choice.settings)
            counted.add(build_key(project, night))
            if night.running:
                tally.running += 1
            if parse_moment(night.created) >= month_start:
                tally.spent_month += usd
            if night in tonight:
                tally.spent_night += usd
        if tonight:
            tally.groups.update(_list_limited_groups(choice.settings, project))
            if tonight[0].running:  # the merge request of a finished night is counted above
                tally.reviewers.update(list_reviewers(project))
    # The last plan knew costs of nights that are no longer on GitLab's first page.
    first_day = month_start.date().isoformat()
    tally.spent_month += sum(
        cost.counted_usd
        for key, cost in choice.costs.ended.items()
        if key not in counted and cost.day >= first_day
    )
    return tally


def _list_limited_groups(settings: FleetSettings, project: FleetProject) -> list[str]:
    """The groups of ``group_limits`` that contain the project."""
    return [group for group in settings.group_limits if project.path.startswith(f"{group}/")]


def _decide_within_limits(
    choice: FleetChoice, tally: _Tally, project: FleetProject
) -> PlannedProject:
    """Start a project's night, now or later, or say which limit is reached."""
    if reason := next(_list_reached_limits(choice, tally, project), ""):
        return _build_row(choice, project, "no", reason)
    # Reserved even before its hour, so that no project with an earlier hour takes its place.
    _reserve(choice, tally, project)
    hour = choice.window.find_hour(project.id)
    cadence = choice.settings.find_cadence(project.path)
    if not choice.window.is_open(choice.now) or hour > choice.now:
        return _build_row(choice, project, "later", f"{cadence}: at its hour")
    if tally.running >= choice.settings.max_running:
        text = f"{tally.running} nights are running; max_running is {choice.settings.max_running}"
        return _build_row(choice, project, "wait", text)
    tally.running += 1
    return _build_row(choice, project, "start", f"{cadence}: due")


def _reserve(choice: FleetChoice, tally: _Tally, project: FleetProject) -> None:
    limit = find_limit(project, choice.settings)
    tally.spent_night += limit
    tally.spent_month += limit
    tally.reserved += limit
    tally.groups.update(_list_limited_groups(choice.settings, project))
    tally.reviewers.update(list_reviewers(project))


def _list_reached_limits(
    choice: FleetChoice, tally: _Tally, project: FleetProject
) -> Iterator[str]:
    settings, limit = choice.settings, find_limit(project, choice.settings)
    for name, spent, budget in (
        ("night", tally.spent_night, settings.budget.night_usd),
        ("month", tally.spent_month, settings.budget.month_usd),
    ):
        if budget is not None and spent + limit > budget:
            text = f"${spent:.2f} of ${budget:g} are spent or reserved"
            yield f"the {name}'s budget: {text}, this may cost ${limit:g}"
    for group in _list_limited_groups(settings, project):
        if tally.groups[group] >= settings.group_limits[group]:
            yield f"{group} has its {settings.group_limits[group]} nights tonight"
    for name in list_reviewers(project):
        if tally.reviewers[name] >= settings.max_open_per_reviewer:
            count = tally.reviewers[name]
            text = f"@{name} has {count} night-shift merge requests, open or tonight"
            yield f"{text}; max_open_per_reviewer is {settings.max_open_per_reviewer}"


def _build_row(
    choice: FleetChoice, project: FleetProject, decision: StartDecision, reason: str
) -> PlannedProject:
    hour = choice.window.find_hour(project.id).isoformat()
    limit = find_limit(project, choice.settings)
    return PlannedProject(project.id, project.path, decision, reason, hour, limit)


def _list_unknown(settings: FleetSettings, discovery: Discovery) -> Iterator[str]:
    paths = [
        each.path
        for each in discovery.projects
        if each.settings.labels is not None and settings.label not in each.settings.labels
    ]
    if paths:
        names = ", ".join(paths[:3])
        text = f"open merge requests of {len(paths)} projects, which have other labels"
        yield f"{text} than {settings.label}: {names}"
