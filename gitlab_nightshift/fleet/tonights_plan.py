"""``fleet plan`` finds the projects, reads the costs of nights, and chooses tonight's projects; it
changes nothing. ``fleet run`` plays these projects' schedules, or this job's share of them.
"""

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.fleet.choice import choose_tonight, list_unpayable
from gitlab_nightshift.fleet.discovery import CostRequest, discover, list_missing, read_costs
from gitlab_nightshift.fleet.fleet_dashboard import NOTHING_OFF, Switches
from gitlab_nightshift.fleet.fleet_settings import (
    FleetFile,
    NightWindow,
    compute_project_hash,
    find_month_start,
    find_window,
    parse_moment,
)
from gitlab_nightshift.gitlab.api_error import ApiError, transient
from gitlab_nightshift.gitlab.fleet_api import ControlJob, FleetApi
from gitlab_nightshift.gitlab.project_settings import FLEET_SCHEDULE, Schedule
from gitlab_nightshift.records.fleet_records import FleetPlan, NightCost, PlannedProject
from gitlab_nightshift.records.storage import build_record
from gitlab_nightshift.settings.load import build_mistakes_error

PLAN_FILE, PLAN_JOB = "fleet-plan.json", "fleet:plan"
GONE = "moved, deleted, or hidden from this token since the last plan"
PLAN_VALID_FOR = dt.timedelta(minutes=40)
"""For how long after it was made a plan's nights may be started."""
PLAN_PENDING_FOR = PLAN_VALID_FOR + dt.timedelta(minutes=5)
"""For how long the next plan takes these nights as pending: longer, as runners' clocks differ."""


@dataclass(frozen=True)
class LastPlan:
    """What the next plan needs of the last one. ``to_start`` are the ids of the projects whose
    nights its jobs had to start, ``paths`` are those of all its projects; ``note`` is why there is
    no last plan, "" if there is one or none is expected."""

    costs: tuple[NightCost, ...] = ()
    made_at: str = ""
    window_start: str = ""
    to_start: frozenset[int] = frozenset()
    paths: tuple[str, ...] = ()
    note: str = ""

    def knows(self, path: str) -> bool:
        """True if the plan had this project, or a project of this group: then a path that GitLab
        lacks now is gone, not misspelt in the file."""
        return any(f"{known}/".startswith(f"{path}/") for known in self.paths)

    def list_pending(self, window: NightWindow, now: dt.datetime) -> frozenset[int]:
        """Projects that jobs of the last plan may still start tonight."""
        is_tonights = self.window_start == window.start.isoformat()
        is_pending = now < parse_moment(self.made_at) + PLAN_PENDING_FOR
        return self.to_start if is_tonights and is_pending else frozenset()


def plan_fleet(
    api: FleetApi,
    file: FleetFile,
    last: LastPlan,
    now: dt.datetime,
    switches: Switches = NOTHING_OFF,
) -> FleetPlan:
    """The plan for ``now``. ``switches`` are the dashboard's.

    Raises ``E_CONFIG`` with all mistakes in the file, and ApiError.
    """
    discovery = discover(api, file.settings)
    missing = (*discovery.missing_groups, *discovery.missing_projects)
    gone = [path for path in missing if last.knows(path)]
    if mistakes := [*list_missing(file, discovery, gone), *list_unpayable(file, discovery)]:
        raise build_mistakes_error(mistakes)
    window = find_window(file.settings, now)
    # A window may begin on the last day of the previous month.
    since = min(window.start, find_month_start(file.settings, window))
    request = CostRequest(since, {cost.night: cost for cost in last.costs}, file.settings)
    costs = read_costs(api, discovery.projects, request)
    pending = last.list_pending(window, now)
    plan = choose_tonight(file.settings, discovery, costs, now, pending, switches)
    rows = (PlannedProject(0, path, "no", GONE, plan.window_end, 0.0) for path in gone)
    return replace(plan, projects=(*plan.projects, *rows))


def read_last_plan(api: FleetApi, folder: Path, control: ControlJob | None) -> LastPlan:
    """The last plan, from ``fleet-plan.json`` in ``folder``, else from the control project."""
    try:
        data: bytes | None = (folder / PLAN_FILE).read_bytes()
    except OSError:
        if control is None:
            return LastPlan()
        data = api.find_last_artifact(control, PLAN_JOB, PLAN_FILE)
    consequence = "the costs of this month's nights are read from their results"
    if data is None:
        text = "no earlier plan that this token sees in the control project"
        return LastPlan(note=f"{text}: {consequence}")
    try:
        plan = build_record(FleetPlan, json.loads(data), PLAN_FILE)
    except (NightshiftError, ValueError, RecursionError):
        return LastPlan(note=f"the earlier {PLAN_FILE} cannot be read: {consequence}")
    to_start = frozenset(row.id for row in plan.projects if row.decision == "start")
    paths = tuple(row.path for row in plan.projects)
    return LastPlan(plan.costs, plan.made_at, plan.window_start, to_start, paths)


def format_plan(plan: FleetPlan) -> Iterator[str]:
    """The plan as a table with totals."""
    width = max((len(row.path) for row in plan.projects), default=0)
    for row in plan.projects:
        hour = f"{dt.datetime.fromisoformat(row.at):%H:%M}Z" if row.decision == "later" else ""
        yield f"{row.decision:7} {row.path:{width}}  {row.reason} {hour}".rstrip()
    counts = Counter[str](row.decision for row in plan.projects)
    decisions = ("start", "later", "wait", "started", "no")
    yield f"night of {plan.night}, {plan.window_start} to {plan.window_end}"
    yield ", ".join(f"{counts[decision]} {decision}" for decision in decisions)
    yield (
        f"spent tonight ${plan.spent_night_usd:.2f}, this month ${plan.spent_month_usd:.2f};"
        f" reserved for tonight ${plan.reserved_usd:.2f}; {plan.running} running"
    )
    yield from (f"not known: {text}" for text in plan.unknown)


# --- starting the nights of a plan ----------------------------------------------------------------


SETTLING_S = 5.0
"""Pause before the first check for tonight's pipelines: GitLab may still be creating some for a
killed job."""
LOOK_PAUSES_S = (1.0, 2.0, 3.0, 5.0, 8.0, *[10.0] * 9)
"""Pauses between checks for a played schedule's pipeline, nearly two minutes in all; the first ones
also between plays."""
MOST_PLAYS = 6
"""Attempts to play a schedule."""


@dataclass(frozen=True)
class Shard:
    """This job's part of a plan: number ``index`` (from 1) of ``total``."""

    index: int = 1
    total: int = 1

    def contains(self, project: int) -> bool:
        """True if a project is in this shard. It is in the same one each night."""
        return compute_project_hash("shard", project) % self.total == self.index - 1


@dataclass(frozen=True)
class StartResult:
    """The result for a project. ``already``: tonight's pipeline existed; ``own``: the project has
    an active schedule of its own, so the fleet's is not played."""

    path: str
    outcome: Literal["started", "already", "own", "failed"]
    text: str


def start_nights(
    api: FleetApi, plan: FleetPlan, shard: Shard, now: dt.datetime
) -> Iterator[StartResult]:
    """Start the nights of this shard; a project's failure does not affect the others. Raises
    ``E_CONFIG`` for a plan whose window is over."""
    if now >= dt.datetime.fromisoformat(plan.window_end):
        text = f"the window of {plan.night} is over since {plan.window_end}"
        raise build_config_error(f"{text}: nothing is started; run nightshift fleet plan again")
    due = [each for each in plan.projects if each.decision == "start" and shard.contains(each.id)]
    if due:
        api.clock.sleep(SETTLING_S)
    # From here on, the plan's end by the monotonic clock.
    valid_until = dt.datetime.fromisoformat(plan.made_at) + PLAN_VALID_FOR
    until = api.clock.now() + (valid_until - now).total_seconds()
    yield from api.map_concurrently(partial(_start_one, api, plan.window_start, until), due)


def _start_one(api: FleetApi, since: str, until: float, project: PlannedProject) -> StartResult:
    """Start one project's night; never raises."""
    if api.clock.now() >= until:
        return StartResult(
            project.path, "failed", "this plan is too old: the next one decides anew"
        )
    try:
        # Read just before the play: a person may have activated a schedule since the plan.
        schedule = _find_schedule(project.path, api.list_schedules(project.id))
        if isinstance(schedule, StartResult):
            return schedule
        if pipelines := api.list_pipelines_since(project.id, schedule.id, since):
            return StartResult(project.path, "already", f"pipeline {pipelines[-1]} is tonight's")
        return _play(api, project, schedule.id, since)
    except ApiError as error:
        return StartResult(project.path, "failed", _explain(error))
    except NightshiftError as error:
        return StartResult(project.path, "failed", error.message)


def _find_schedule(path: str, schedules: tuple[Schedule, ...]) -> Schedule | StartResult:
    own = [each for each in schedules if each.active and each.has_night_variable]
    fleet = [each for each in schedules if each.description == FLEET_SCHEDULE]
    if active := next((each for each in (*own, *fleet) if each.active), None):
        text = f"its schedule {active.description!r} is active, @{active.owner}'s: not played"
        return StartResult(path, "own", text)
    if not fleet:
        text = f"it has no schedule {FLEET_SCHEDULE!r}: nightshift fleet init makes it"
        return StartResult(path, "failed", text)
    return fleet[0]


def _play(api: FleetApi, project: PlannedProject, schedule: int, since: str) -> StartResult:
    """Play a schedule, and wait for its pipeline. Before each retry, look for the pipeline."""
    message = ""
    for pause_s in LOOK_PAUSES_S[:MOST_PLAYS]:
        try:
            api.play(project.id, schedule)
        except ApiError as error:
            if not transient(error):
                raise
            # GitLab may have started the pipeline although it answered with an error.
            message = error.message
            api.clock.sleep(max(pause_s, min(error.retry_after_s, 60.0)))
            if pipelines := api.list_pipelines_since(project.id, schedule, since):
                return StartResult(project.path, "started", f"pipeline {pipelines[-1]}")
            continue
        return _wait_for_pipeline(api, project, schedule, since)
    text = f"GitLab refused the play {MOST_PLAYS} times: {message}"
    return StartResult(project.path, "failed", text)


def _wait_for_pipeline(
    api: FleetApi, project: PlannedProject, schedule: int, since: str
) -> StartResult:
    for pause_s in (0.0, *LOOK_PAUSES_S):
        api.clock.sleep(pause_s)
        if pipelines := api.list_pipelines_since(project.id, schedule, since):
            return StartResult(project.path, "started", f"pipeline {pipelines[-1]}")
    text = "GitLab accepted the play, but has created no pipeline: does .gitlab-ci.yml have a job"
    return StartResult(project.path, "failed", f"{text} for this schedule, does its branch exist?")


def _explain(error: ApiError) -> str:
    if error.status == 404:
        return "moved, deleted, or hidden from this token since the plan"
    if error.status == 403:
        return f"{error.message}; the account needs a role that may push or merge to the branch"
    return error.message
