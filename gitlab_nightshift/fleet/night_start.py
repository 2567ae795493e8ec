"""``fleet run``: play the schedules of the projects that a plan gave to this job.

What has been started tonight is known from each schedule's pipelines alone, so a job that was
killed goes on where it was. Between ``play`` and its pipeline GitLab shows nothing: after an answer
that was lost, or a start of this program, it is looked for again before anything is played again.
GitLab keeps one waiting play of a user for a schedule, and a night whose own plan finds that
tonight's has run is skipped before a token is spent.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.fleet.night_window import spread
from gitlab_nightshift.gitlab.api_error import ApiError, transient
from gitlab_nightshift.gitlab.ci_settings import FLEET_SCHEDULE, Schedule
from gitlab_nightshift.gitlab.fleet_api import FleetApi
from gitlab_nightshift.records.planned_fleet import FleetPlan, PlannedProject

PLAN_LASTS = dt.timedelta(minutes=40)
"""How long a plan's nights may be started. The next plan counts them for some minutes more."""
SETTLING_S = 5.0
"""What the run before this one may have played just before its end needs to show itself."""
LOOK_PAUSES_S = (1.0, 2.0, 3.0, 5.0, 8.0, *[10.0] * 9)
"""Between the questions for a pipeline that GitLab makes later: two minutes in all."""
PLAYS = 6
"""Tries to play a schedule, with a look before each."""


@dataclass(frozen=True)
class Share:
    """This job's part of a plan: the ``index``-th of ``total`` shards, from 1 on."""

    index: int = 1
    total: int = 1

    def holds(self, project: int) -> bool:
        """Whether a project is in this part; it is in the same one each night."""
        return spread("shard", project) % self.total == self.index - 1


@dataclass(frozen=True)
class Start:
    """What became of a project: ``own``: it has a schedule of its own, so nothing was played."""

    path: str
    outcome: Literal["started", "already", "own", "failed"]
    text: str


def start_nights(api: FleetApi, plan: FleetPlan, share: Share, now: dt.datetime) -> Iterator[Start]:
    """Start what the plan gave to this part; a project that fails does not stop the others. Raises
    ``E_CONFIG`` for a plan whose window is over."""
    if now >= dt.datetime.fromisoformat(plan.window_end):
        text = f"the window of {plan.night} is over since {plan.window_end}"
        raise build_config_error(f"{text}: nothing is started; run nightshift fleet plan again")
    due = [each for each in plan.projects if each.decision == "start" and share.holds(each.id)]
    if due:
        api.clock.sleep(SETTLING_S)
    ends_at = dt.datetime.fromisoformat(plan.made_at) + PLAN_LASTS
    left_s = (ends_at - now).total_seconds()
    until = api.clock.now() + left_s
    yield from api.map_at_once(partial(_start_one, api, plan.window_start, until), due)


def _start_one(api: FleetApi, since: str, until: float, project: PlannedProject) -> Start:
    """One project, whatever happens."""
    if api.clock.now() >= until:
        return Start(project.path, "failed", "this plan is too old: the next one decides anew")
    try:
        schedule = _find_schedule(api.list_schedules(project.id))
        if isinstance(schedule, Start):
            return Start(project.path, schedule.outcome, schedule.text)
        if found := api.list_started(project.id, schedule.id, since):
            return Start(project.path, "already", f"pipeline {found[-1]} is tonight's")
        return _play(api, project, schedule.id, since)
    except ApiError as error:
        return Start(project.path, "failed", _explain(error))
    except NightshiftError as error:
        return Start(project.path, "failed", error.message)


def _find_schedule(schedules: tuple[Schedule, ...]) -> Schedule | Start:
    """The schedule to play, or why there is none."""
    own = [each for each in schedules if each.active and each.switched]
    fleet = [each for each in schedules if each.description == FLEET_SCHEDULE]
    if active := next((each for each in (*own, *fleet) if each.active), None):
        text = f"its schedule {active.description!r} is active, @{active.owner}'s: not played"
        return Start("", "own", text)
    if not fleet:
        text = f"it has no schedule {FLEET_SCHEDULE!r}: nightshift fleet init makes it"
        return Start("", "failed", text)
    return fleet[0]


def _play(api: FleetApi, project: PlannedProject, schedule: int, since: str) -> Start:
    """Play it until its pipeline is seen; before each further try it is looked for."""
    why = ""
    for pause_s in LOOK_PAUSES_S[:PLAYS]:
        try:
            api.play(project.id, schedule)
        except ApiError as error:
            if not transient(error):
                raise
            why = error.message
            api.clock.sleep(max(pause_s, min(error.retry_after_s, 60.0)))
            if found := api.list_started(project.id, schedule, since):
                return Start(project.path, "started", f"pipeline {found[-1]}")
            continue
        return _wait_for_pipeline(api, project, schedule, since)
    return Start(project.path, "failed", f"GitLab did not take it {PLAYS} times: {why}")


def _wait_for_pipeline(api: FleetApi, project: PlannedProject, schedule: int, since: str) -> Start:
    for pause_s in (0.0, *LOOK_PAUSES_S):
        api.clock.sleep(pause_s)
        if found := api.list_started(project.id, schedule, since):
            return Start(project.path, "started", f"pipeline {found[-1]}")
    text = "GitLab took it and has made no pipeline: does its .gitlab-ci.yml give this schedule a"
    return Start(project.path, "failed", f"{text} job, and is its branch there?")


def _explain(error: ApiError) -> str:
    if error.status == 404:
        return "moved, deleted, or hidden from this token since the plan"
    if error.status == 403:
        return f"{error.message}; the account needs a role that may push or merge to the branch"
    return error.message
