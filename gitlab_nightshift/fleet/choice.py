"""Which projects get a night tonight: pure functions of what GitLab shows and of ``fleet.yaml``."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from gitlab_nightshift.fleet.fleet_dashboard import NOTHING_OFF, Switches
from gitlab_nightshift.fleet.fleet_settings import FleetFile, FleetSettings
from gitlab_nightshift.fleet.night_costs import FleetCosts, find_limit
from gitlab_nightshift.fleet.night_window import (
    NightWindow,
    find_month_start,
    find_window,
    parse_moment,
    spread,
)
from gitlab_nightshift.records.fleet_records import (
    Discovery,
    FleetMergeRequest,
    FleetNight,
    FleetProject,
)
from gitlab_nightshift.records.history_records import IGNORED_AFTER
from gitlab_nightshift.records.planned_fleet import Decision, FleetPlan, PlannedProject
from gitlab_nightshift.settings.notations import WEEKDAYS

RECENT = dt.timedelta(days=28)
"""Nights that count for the order."""
OWN_SCHEDULE = dt.timedelta(days=8)
"""How long after its last night a project is taken to have a schedule of its own."""
SETTLED = dt.timedelta(hours=1)
"""What GitLab notes as activity so soon after a night is the night's own."""
_UNPLAIN = (":", "code_owners", "approval_rules")


@dataclass
class _Caps:
    """What tonight's nights have used so far of each limit."""

    spent_night: float = 0.0
    spent_month: float = 0.0
    running: int = 0
    reserved: float = 0.0
    groups: Counter[str] = field(default_factory=Counter)
    reviewers: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class FleetChoice:
    """What a choice is made from; ``account`` plays the schedules."""

    settings: FleetSettings
    window: NightWindow
    now: dt.datetime
    account: str
    costs: FleetCosts
    switches: Switches = NOTHING_OFF


def choose_tonight(
    settings: FleetSettings,
    found: Discovery,
    costs: FleetCosts,
    now: dt.datetime,
    pending: frozenset[int] = frozenset(),
    switches: Switches = NOTHING_OFF,
) -> FleetPlan:
    """The plan for the window that is open, or for the next one. Jobs of the last plan may still
    start ``pending``."""
    account = settings.account or found.account
    choice = FleetChoice(settings, find_window(settings, now), now, account, costs, switches)
    caps = _count_used(choice, found.projects)
    rows = {each.id: _judge_alone(choice, caps, each, pending) for each in found.projects}
    candidates = (each for each in found.projects if rows[each.id] is None)
    for project in sorted(candidates, key=lambda each: rank(each, now)):
        rows[project.id] = _allot(choice, caps, project)
    return _build_plan(choice, caps, found, tuple(row for row in rows.values() if row))


def _judge_alone(
    choice: FleetChoice, caps: _Caps, project: FleetProject, pending: frozenset[int]
) -> PlannedProject | None:
    """What is decided of a project whatever is left of the limits; None where a night is due."""
    if reason := find_obstacle(choice, project):
        return _build_row(choice, project, "no", reason)
    if tonight := list_tonight(choice, project):
        return _build_row(choice, project, "started", _describe(choice, tonight))
    if project.id in pending:
        return _count_pending(choice, caps, project)
    reason = find_not_due(choice, project)
    return _build_row(choice, project, "no", reason) if reason else None


def _build_plan(
    choice: FleetChoice, caps: _Caps, found: Discovery, rows: tuple[PlannedProject, ...]
) -> FleetPlan:
    window, costs = choice.window, choice.costs
    return FleetPlan(
        night=window.night.isoformat(),
        made_at=choice.now.isoformat(timespec="seconds"),
        window_start=window.start.isoformat(),
        window_end=window.end.isoformat(),
        account=choice.account,
        spent_night_usd=round(caps.spent_night - caps.reserved, 4),
        spent_month_usd=round(caps.spent_month - caps.reserved, 4),
        reserved_usd=round(caps.reserved, 4),
        running=sum(night.running for each in found.projects for night in each.nights),
        projects=rows,
        costs=tuple(costs.ended.values()),
        unknown=(
            *(f"whether a Maintainer wants this: {text}" for text in choice.switches.refused),
            *found.unknown,
            *costs.unknown,
            *_list_unknown(choice.settings, found),
        ),
    )


def _describe(choice: FleetChoice, tonight: list[FleetNight]) -> str:
    newest = tonight[0]
    text = f"pipeline {newest.pipeline} is {newest.status}"
    waits = newest.status in ("created", "pending", "preparing", "waiting_for_resource")
    if waits and parse_moment(newest.created) < choice.now - SETTLED:
        text += ", for an hour already: has the project a runner that is free?"
    return text


def list_unpayable(file: FleetFile, found: Discovery) -> Iterator[str]:
    """A line for each budget that cannot pay a single night."""
    settings = file.settings
    limits = [find_limit(each, settings) for each in found.projects if each.set_up]
    for name in ("night_usd", "month_usd"):
        most = getattr(settings.budget, name)
        if limits and most is not None and most < min(limits):
            text = f"${most:g} cannot pay one night: the lowest limit is ${min(limits):g}"
            yield f"{file.find_place('budget', name)}: budget.{name}: {text}"


def find_exclusion(fleet: FleetSettings, project: FleetProject) -> str:
    """Why a project is none of the fleet's business; "" where it is."""
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
    """Why a project has no nights at all; "" where it may have one."""
    reasons: tuple[tuple[bool, str], ...] = (
        (project.included is False, "not set up: its .gitlab-ci.yml lacks the template"),
        (not project.settings.found, "not set up: no nightshift.yaml"),
    )
    missing = next((text for holds, text in reasons if holds), "")
    off = choice.switches.find_reason(project.path)
    return find_exclusion(choice.settings, project) or missing or off


def find_not_due(choice: FleetChoice, project: FleetProject) -> str:
    """Why no night is due tonight, by the dates; "" where one is."""
    return next(_list_not_due(choice, project), "")


def _list_not_due(choice: FleetChoice, project: FleetProject) -> Iterator[str]:
    if choice.window.night in choice.settings.quiet_dates:
        yield f"{choice.window.night} is a quiet date"
    yield from _list_own_rules(choice, project)
    last = project.nights[0] if project.nights else None
    if last is None:
        return
    if owner := _find_own_schedule(choice, project):
        yield f"its own schedule runs nights, by @{owner}: the fleet only counts them"
    cadence = choice.settings.find_cadence(project.path)
    nights_ago = (choice.window.night - _find_night(choice, last)).days
    if cadence == "weekly" and nights_ago < 7:
        yield f"weekly: its last night was {_find_night(choice, last)}"
    worked = parse_moment(project.last_activity) - SETTLED
    if cadence == "when active" and worked <= parse_moment(last.finished or last.created):
        yield f"when active: nothing has happened since its last night, {last.created[:10]}"


def _list_own_rules(choice: FleetChoice, project: FleetProject) -> Iterator[str]:
    """What the project's own settings would skip its night for."""
    import zoneinfo

    settings = project.settings
    opened = sum(each.state == "opened" for each in project.merge_requests)
    if opened >= settings.max_open:
        yield f"{opened} night-shift merge requests are open; its limit is {settings.max_open}"
    try:
        zone = zoneinfo.ZoneInfo(settings.timezone)
    except (ValueError, OSError):  # its own night says so
        return
    day = max(choice.now, choice.window.find_hour(project.id)).astimezone(zone)
    if WEEKDAYS[day.weekday()] not in settings.weekdays:
        yield f"its category_schedule has no {WEEKDAYS[day.weekday()]}"


def _find_own_schedule(choice: FleetChoice, project: FleetProject) -> str:
    """Whose schedule it is, if not the fleet's account has played the last two nights."""
    users = [each.user for each in project.nights[:2]]
    recent = parse_moment(project.nights[0].created) > choice.now - OWN_SCHEDULE
    own = len(users) == 2 and users[0] == users[1] and users[0] != choice.account
    return users[0] if own and recent else ""


def _find_night(choice: FleetChoice, night: FleetNight) -> dt.date:
    """The date of the window in which a night was, or which came next."""
    return find_window(choice.settings, parse_moment(night.created)).night


def list_tonight(choice: FleetChoice, project: FleetProject) -> list[FleetNight]:
    """A project's nights since the window has opened."""
    return [each for each in project.nights if parse_moment(each.created) >= choice.window.start]


def rank(project: FleetProject, now: dt.datetime) -> tuple[int, float, str, int]:
    """What comes first: fewest nights lately, then merged more often, then the longest ago."""
    recent = sum(parse_moment(each.created) > now - RECENT for each in project.nights)
    last = project.nights[0].created if project.nights else ""
    return recent, -estimate_merged(project.merge_requests, now), last, spread("rank", project.id)


def estimate_merged(requests: tuple[FleetMergeRequest, ...], now: dt.datetime) -> float:
    """The share of a project's merge requests that are merged, closer to a half the fewer there
    are; those that wait for long are ignored, those that have just been opened do not count."""
    merged = sum(each.state == "merged" for each in requests)
    ended = sum(each.state != "opened" for each in requests)
    ignored = sum(
        each.state == "opened" and parse_moment(each.created) < now - IGNORED_AFTER
        for each in requests
    )
    return (merged + 1) / (ended + ignored + 2)


def list_reviewers(project: FleetProject) -> tuple[str, ...]:
    """Who would review: user names of its settings, else whoever reviewed its last request."""
    named = [
        each for each in project.settings.reviewers if not any(mark in each for mark in _UNPLAIN)
    ]
    if named:
        return tuple(named)
    return next((each.reviewers for each in project.merge_requests if each.reviewers), ())


def _count_used(choice: FleetChoice, projects: tuple[FleetProject, ...]) -> _Caps:
    """What is used of the limits before anything is chosen."""
    caps, month = _Caps(), find_month_start(choice.settings, choice.window)
    shown: set[str] = set()
    for project in projects:
        caps.reviewers.update(
            name
            for each in project.merge_requests
            if each.state == "opened"
            for name in each.reviewers
        )
        tonight = list_tonight(choice, project)
        for night in project.nights:
            usd = choice.costs.count(project, night, choice.settings)
            shown.add(f"{project.id}/{night.pipeline}")
            caps.running += night.running
            caps.spent_month += usd if parse_moment(night.created) >= month else 0
            caps.spent_night += usd if night in tonight else 0
        if tonight:
            caps.groups.update(_list_limited_groups(choice.settings, project))
            if tonight[0].running:  # a merge request that is there already is counted as one
                caps.reviewers.update(list_reviewers(project))
    first = month.date().isoformat()
    caps.spent_month += sum(
        each.counted_usd
        for key, each in choice.costs.ended.items()
        if key not in shown and each.day >= first
    )
    return caps


def _list_limited_groups(settings: FleetSettings, project: FleetProject) -> list[str]:
    return [each for each in settings.group_limits if project.path.startswith(f"{each}/")]


def _allot(choice: FleetChoice, caps: _Caps, project: FleetProject) -> PlannedProject:
    """Give a project its share of each limit, or say which is used up."""
    if reason := next(_list_reached(choice, caps, project), ""):
        return _build_row(choice, project, "no", reason)
    _use(choice, caps, project)
    hour = choice.window.find_hour(project.id)
    cadence = choice.settings.find_cadence(project.path)
    if not choice.window.is_open(choice.now) or hour > choice.now:
        return _build_row(choice, project, "later", f"{cadence}: at its hour")
    if caps.running >= choice.settings.max_running:
        text = f"{caps.running} nights are running; max_running is {choice.settings.max_running}"
        return _build_row(choice, project, "wait", text)
    caps.running += 1
    return _build_row(choice, project, "start", f"{cadence}: due")


def _count_pending(choice: FleetChoice, caps: _Caps, project: FleetProject) -> PlannedProject:
    """A project whose start may be under way takes part in every limit."""
    _use(choice, caps, project)
    caps.running += 1
    return _build_row(choice, project, "wait", "the last plan may just be starting it")


def _use(choice: FleetChoice, caps: _Caps, project: FleetProject) -> None:
    limit = find_limit(project, choice.settings)
    caps.spent_night += limit
    caps.spent_month += limit
    caps.reserved += limit
    caps.groups.update(_list_limited_groups(choice.settings, project))
    caps.reviewers.update(list_reviewers(project))


def _list_reached(choice: FleetChoice, caps: _Caps, project: FleetProject) -> Iterator[str]:
    settings, limit = choice.settings, find_limit(project, choice.settings)
    budget = settings.budget
    if caps.spent_night + limit > budget.night_usd:
        used = f"${caps.spent_night:.2f} of ${budget.night_usd:g} are spent or reserved"
        yield f"the night's budget: {used}, this may cost ${limit:g}"
    if budget.month_usd is not None and caps.spent_month + limit > budget.month_usd:
        used = f"${caps.spent_month:.2f} of ${budget.month_usd:g} are spent or reserved"
        yield f"the month's budget: {used}, this may cost ${limit:g}"
    for group in _list_limited_groups(settings, project):
        if caps.groups[group] >= settings.group_limits[group]:
            yield f"{group} has its {settings.group_limits[group]} nights tonight"
    for name in list_reviewers(project):
        if caps.reviewers[name] >= settings.max_open_per_reviewer:
            text = f"@{name} has {caps.reviewers[name]} night-shift merge requests, open or tonight"
            yield f"{text}; max_open_per_reviewer is {settings.max_open_per_reviewer}"


def _build_row(
    choice: FleetChoice, project: FleetProject, decision: Decision, reason: str
) -> PlannedProject:
    hour = choice.window.find_hour(project.id).isoformat()
    limit = find_limit(project, choice.settings)
    return PlannedProject(project.id, project.path, decision, reason, hour, limit)


def _list_unknown(settings: FleetSettings, found: Discovery) -> Iterator[str]:
    others = [
        each
        for each in found.projects
        if each.settings.labels is not None and settings.label not in each.settings.labels
    ]
    if others:
        names = ", ".join(each.path for each in others[:3])
        text = f"open merge requests of {len(others)} projects, which have other labels"
        yield f"{text} than {settings.label}: {names}"
