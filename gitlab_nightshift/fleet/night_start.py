"""``fleet run``: play the schedules of this job's projects in a plan.

Each schedule's pipelines tell what was started tonight, so a killed job can be retried. GitLab
creates the pipeline some time after ``play``. Therefore, before a schedule is played again, after a
lost answer or by a new job, its pipeline is looked for. What still gets through is harmless: GitLab
drops a second play that waits (``RunPipelineScheduleWorker``: ``deduplicate :until_executed``), and
a second night of a project skips itself before it spends a token.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.fleet.fleet_settings import compute_project_hash
from gitlab_nightshift.gitlab.api_error import ApiError, transient
from gitlab_nightshift.gitlab.fleet_api import FleetApi
from gitlab_nightshift.gitlab.project_settings import FLEET_SCHEDULE, Schedule
from gitlab_nightshift.records.fleet_records import FleetPlan, PlannedProject

PLAN_VALID_FOR = dt.timedelta(minutes=40)
"""Nights of a plan may be started this long after it was made. The next plan takes them for pending
a little longer (``PLAN_PENDING_FOR``)."""
SETTLING_S = 5.0
"""Seconds before the first look: GitLab may still create pipelines that a killed job has asked
for."""
LOOK_PAUSES_S = (1.0, 2.0, 3.0, 5.0, 8.0, *[10.0] * 9)
"""Pauses between looks for a played schedule's pipeline: two minutes in all."""
PLAYS = 6
"""Attempts to play a schedule."""


@dataclass(frozen=True)
class Shard:
    """This job's part of a plan: number ``index`` of ``total``, from 1 on."""

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
    """Start the nights of this shard; a failing project does not stop the others. Raises
    ``E_CONFIG`` for a plan whose window is over."""
    if now >= dt.datetime.fromisoformat(plan.window_end):
        text = f"the window of {plan.night} is over since {plan.window_end}"
        raise build_config_error(f"{text}: nothing is started; run nightshift fleet plan again")
    due = [each for each in plan.projects if each.decision == "start" and shard.contains(each.id)]
    if due:
        api.clock.sleep(SETTLING_S)
    ends_at = dt.datetime.fromisoformat(plan.made_at) + PLAN_VALID_FOR
    # The plan's end by the monotonic clock, for all that follows.
    until = api.clock.now() + (ends_at - now).total_seconds()
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
        if found := api.list_started(project.id, schedule.id, since):
            return StartResult(project.path, "already", f"pipeline {found[-1]} is tonight's")
        return _play(api, project, schedule.id, since)
    except ApiError as error:
        return StartResult(project.path, "failed", _explain(error))
    except NightshiftError as error:
        return StartResult(project.path, "failed", error.message)


def _find_schedule(path: str, schedules: tuple[Schedule, ...]) -> Schedule | StartResult:
    own = [each for each in schedules if each.active and each.switched]
    fleet = [each for each in schedules if each.description == FLEET_SCHEDULE]
    if active := next((each for each in (*own, *fleet) if each.active), None):
        text = f"its schedule {active.description!r} is active, @{active.owner}'s: not played"
        return StartResult(path, "own", text)
    if not fleet:
        text = f"it has no schedule {FLEET_SCHEDULE!r}: nightshift fleet init makes it"
        return StartResult(path, "failed", text)
    return fleet[0]


def _play(api: FleetApi, project: PlannedProject, schedule: int, since: str) -> StartResult:
    """Play a schedule, and wait for its pipeline. Before each retry, look for it."""
    why = ""
    for pause_s in LOOK_PAUSES_S[:PLAYS]:
        try:
            api.play(project.id, schedule)
        except ApiError as error:
            if not transient(error):
                raise
            # GitLab may have started the pipeline although it answered with an error.
            why = error.message
            api.clock.sleep(max(pause_s, min(error.retry_after_s, 60.0)))
            if found := api.list_started(project.id, schedule, since):
                return StartResult(project.path, "started", f"pipeline {found[-1]}")
            continue
        return _wait_for_pipeline(api, project, schedule, since)
    return StartResult(
        project.path, "failed", f"GitLab did not accept the play {PLAYS} times: {why}"
    )


def _wait_for_pipeline(
    api: FleetApi, project: PlannedProject, schedule: int, since: str
) -> StartResult:
    for pause_s in (0.0, *LOOK_PAUSES_S):
        api.clock.sleep(pause_s)
        if found := api.list_started(project.id, schedule, since):
            return StartResult(project.path, "started", f"pipeline {found[-1]}")
    text = "GitLab accepted the play, but has created no pipeline: does .gitlab-ci.yml have a job"
    return StartResult(project.path, "failed", f"{text} for this schedule, does its branch exist?")


def _explain(error: ApiError) -> str:
    if error.status == 404:
        return "moved, deleted, or hidden from this token since the plan"
    if error.status == 403:
        return f"{error.message}; the account needs a role that may push or merge to the branch"
    return error.message
