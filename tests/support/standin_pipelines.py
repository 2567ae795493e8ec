"""The stand-in's pipelines: started by the API, and manual jobs played.

No runner is behind them: a pipeline gets the jobs of ``Project.pipeline_jobs``, and a test moves
them on by :func:`settle`.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gitlab_nightshift.demo.standin_api import (
    WRITE,
    Endpoint,
    StandinApiError,
    StandinCall,
    build_page,
    check_filters,
    find_project,
    require_fields,
)
from gitlab_nightshift.demo.standin_json import build_user_json
from gitlab_nightshift.demo.standin_repository import read_heads
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    MAINTAINER,
    REPORTER,
    StandinAnswer,
    State,
    User,
    build_timestamp,
)
from tests.support.standin_records import (
    FullProject,
    PipelineJob,
    StandinPipeline,
    StandinSchedule,
    as_full,
    build_job_json,
    build_pipeline_json,
    get_project,
)

Plays = dict[tuple[int, int, int], float]
"""Project, schedule and user → since when (monotonic seconds) a play waits for the worker."""
NOT_ALLOWED = (
    "You do not have sufficient permission to run a pipeline on '{}'. Please select a different "
    "branch or contact your administrator for assistance."
)
NO_VARIABLES = "Insufficient permissions to set pipeline variables"
NO_JOBS = (
    "Pipeline will not run for the selected trigger. The rules configuration prevented any jobs "
    "from being added to the pipeline."
)


def settle(
    project: FullProject, name: str, status: str, artifacts: Path | None = None
) -> PipelineJob:
    """Move the newest job of this name on; the job as it is then."""
    number = max(n for n, job in enumerate(project.jobs) if job.name == name)
    job = project.jobs[number]
    project.jobs[number] = replace(job, status=status, artifacts=artifacts or job.artifacts)
    return project.jobs[number]


def add_pipeline(
    state: State, project: FullProject, branch: str, jobs: Sequence[PipelineJob]
) -> StandinPipeline:
    """A pipeline of a branch's head, as a push starts it; the jobs get their numbers here."""
    number = state.allocate_id("pipeline")
    sha = read_heads(project.bare_repository)[branch]
    address = f"{project.web_url}/-/pipelines/{number}"
    made = StandinPipeline(number, branch, sha, address, state.users[0], {}, "push")
    project.pipelines.append(made)
    project.jobs += [replace(each, id=state.allocate_id("job"), pipeline=number) for each in jobs]
    return made


def _create(call: StandinCall) -> StandinAnswer:
    body, project = require_fields(call.request.body, "ref"), get_project(call)
    variables = {each["key"]: each["value"] for each in body.get("variables") or ()}
    sha = read_heads(project.bare_repository).get(body["ref"])
    if sha is None:
        raise _build_refusal("Reference not found")
    if project.is_protected(body["ref"]) and call.caller.access_level < MAINTAINER:
        raise _build_refusal(NOT_ALLOWED.format(body["ref"]))
    if variables and call.caller.access_level < project.variables_role:
        raise _build_refusal(NO_VARIABLES)
    if not project.pipeline_jobs:
        raise _build_refusal(NO_JOBS)
    number = call.state.allocate_id("pipeline")
    address = f"{project.web_url}/-/pipelines/{number}"
    made = StandinPipeline(number, body["ref"], sha, address, call.caller.user, variables)
    project.pipelines.append(made)
    for name, status in project.pipeline_jobs.items():
        nowhere = call.state.root / "no-artifacts"
        job = PipelineJob(call.state.allocate_id("job"), number, name, nowhere, made.user, status)
        project.jobs.append(job)
    return StandinAnswer(201, build_pipeline_json(made, project))


def _show(call: StandinCall) -> StandinAnswer:
    for pipeline in get_project(call).pipelines:
        if str(pipeline.id) == call.values["pipeline"]:
            user = build_user_json(pipeline.user, call.state.url)
            shown = {**build_pipeline_json(pipeline, get_project(call)), "user": user}
            return StandinAnswer(200, shown)
    raise StandinApiError(404, {"message": "404 Not found"})


def _list(call: StandinCall) -> StandinAnswer:
    query = check_filters(call.request, "source", "ref", "order_by", "sort")
    if (query.pop("order_by", "id"), query.pop("sort", "desc")) != ("id", "desc"):
        raise StandinApiError(501, {"message": "the stand-in lists the newest first"})
    wanted = {name: query[name] for name in ("source", "ref") if name in query}
    found = [
        each
        for each in sorted(get_project(call).pipelines, key=lambda each: each.id, reverse=True)
        if all(getattr(each, name) == value for name, value in wanted.items())
    ]
    return build_page(call, found, lambda each: build_pipeline_json(each, get_project(call)))


def _play(call: StandinCall) -> StandinAnswer:
    jobs = get_project(call).jobs
    for number, job in enumerate(jobs):
        if str(job.id) == call.values["job"]:
            if job.status != "manual":
                raise StandinApiError(400, {"message": "400 Bad request - Unplayable Job"})
            jobs[number] = replace(job, status="pending", user=call.caller.user)
            return StandinAnswer(200, build_job_json(jobs[number], call.state.url))
    raise StandinApiError(404, {"message": "404 Not found"})


def _play_schedule(call: StandinCall) -> StandinAnswer:
    """Only says that a worker will see to it, which takes one waiting play of a user for one
    schedule, active or not (app/workers/run_pipeline_schedule_worker.rb)."""
    project, schedule = get_project(call), _find_schedule(call)
    branch = schedule.ref.removeprefix("refs/heads/")
    if project.is_protected(branch) and call.caller.access_level < MAINTAINER:
        raise StandinApiError(403, {"message": "403 Forbidden"})
    if project.archived:
        raise StandinApiError(403, {"message": "403 Forbidden"})
    plays: Plays = vars(call.state)["plays"]
    plays.setdefault((project.id, schedule.id, call.caller.user.id), time.monotonic())
    return StandinAnswer(201, {"message": "201 Created"})


def create_played(state: State, plays: Plays, delay_s: float) -> None:
    """What the worker does: a pipeline for each play that has waited so long."""
    now = time.monotonic()
    for key in [key for key, since in plays.items() if since + delay_s <= now]:
        del plays[key]
        project = as_full(find_project(state, str(key[0])))
        user = next(each for each in state.users if each.id == key[2])
        if project.pipeline_jobs:
            add_scheduled(state, project, key[1], user)


def add_scheduled(state: State, project: FullProject, schedule: int, user: User) -> StandinPipeline:
    """A pipeline of a schedule, with the project's jobs."""
    number = state.allocate_id("pipeline")
    address = f"{project.web_url}/-/pipelines/{number}"
    made = StandinPipeline(number, project.default_branch, "0" * 40, address, user, {}, "schedule")
    made = replace(made, schedule=schedule, created_at=build_timestamp())
    project.pipelines.append(made)
    nowhere = state.root / "no-artifacts"
    for name, status in project.pipeline_jobs.items():
        job = PipelineJob(state.allocate_id("job"), number, name, nowhere, user, status)
        project.jobs.append(replace(job, started=status == "running"))
    return made


def _list_of_schedule(call: StandinCall) -> StandinAnswer:
    """Ordered by id, the oldest first unless asked otherwise (lib/api/ci/pipeline_schedules.rb)."""
    query, schedule = check_filters(call.request, "created_after", "status"), _find_schedule(call)
    since, status = query.get("created_after", ""), query.get("status", "")
    found = [
        each
        for each in get_project(call).pipelines
        if each.schedule == schedule.id
        and (not since or _parse_time(each.created_at) >= _parse_time(since))
    ]
    if query.get("sort") == "desc":
        found.reverse()
    shown = [build_pipeline_json(each, get_project(call)) for each in found]
    return build_page(call, [row for row in shown if status in ("", row["status"])], dict)


def _parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _find_schedule(call: StandinCall) -> StandinSchedule:
    for each in get_project(call).schedules:
        if str(each.id) == call.values["schedule"]:
            return each
    raise StandinApiError(404, {"message": "404 Pipeline Schedule Not Found"})


def _send_log(call: StandinCall) -> StandinAnswer:
    """GET jobs/:id/trace: plain text."""
    for job in get_project(call).jobs:
        if str(job.id) == call.values["job"]:
            return StandinAnswer(200, job.log.encode())
    raise StandinApiError(404, {"message": "404 Not found"})


def _build_refusal(why: str) -> StandinApiError:
    return StandinApiError(400, {"message": {"base": [why]}})


PIPELINES = "projects/{id}/pipelines"
SCHEDULE = "projects/{id}/pipeline_schedules/{schedule}"
ENDPOINTS = (
    Endpoint("POST", "projects/{id}/pipeline", _create, DEVELOPER, WRITE),
    Endpoint("GET", PIPELINES, _list, REPORTER),
    Endpoint("GET", f"{PIPELINES}/{{pipeline}}", _show, REPORTER),
    Endpoint("GET", "projects/{id}/jobs/{job}/trace", _send_log, DEVELOPER),
    Endpoint("POST", "projects/{id}/jobs/{job}/play", _play, DEVELOPER, WRITE),
    Endpoint("POST", f"{SCHEDULE}/play", _play_schedule, DEVELOPER, WRITE),
    Endpoint("GET", f"{SCHEDULE}/pipelines", _list_of_schedule, DEVELOPER),
)
