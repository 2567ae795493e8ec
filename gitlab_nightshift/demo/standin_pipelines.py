"""The stand-in's pipelines: started by the API, and manual jobs played.

No runner is behind them: a pipeline gets the jobs of ``Project.pipeline_jobs``, and a test moves
them on by :func:`settle`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.demo.standin_api import WRITE, ApiError, Call, Endpoint, required
from gitlab_nightshift.demo.standin_json import job_json
from gitlab_nightshift.demo.standin_repository import heads
from gitlab_nightshift.demo.standin_state import (
    DEVELOPER,
    MAINTAINER,
    REPORTER,
    Answer,
    PipelineJob,
    Project,
    User,
)

NOT_ALLOWED = (
    "You do not have sufficient permission to run a pipeline on '{}'. Please select a different "
    "branch or contact your administrator for assistance."
)
NO_VARIABLES = "Insufficient permissions to set pipeline variables"
NO_JOBS = (
    "Pipeline will not run for the selected trigger. The rules configuration prevented any jobs "
    "from being added to the pipeline."
)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline as it was asked for; ``variables`` as they were sent."""

    id: int
    ref: str
    sha: str
    web_url: str
    user: User
    variables: Mapping[str, str]


def settle(project: Project, name: str, status: str, artifacts: Path | None = None) -> PipelineJob:
    """Move the newest job of this name on; the job as it is then."""
    number = max(n for n, job in enumerate(project.jobs) if job.name == name)
    job = project.jobs[number]
    project.jobs[number] = replace(job, status=status, artifacts=artifacts or job.artifacts)
    return project.jobs[number]


def _create(call: Call) -> Answer:
    body, project = required(call.request.body, "ref"), call.project
    variables = {each["key"]: each["value"] for each in body.get("variables") or ()}
    sha = heads(project.git, project.bare_repository).get(body["ref"])
    if sha is None:
        raise _refused("Reference not found")
    if project.is_protected(body["ref"]) and call.caller.access_level < MAINTAINER:
        raise _refused(NOT_ALLOWED.format(body["ref"]))
    if variables and call.caller.access_level < project.variables_role:
        raise _refused(NO_VARIABLES)
    if not project.pipeline_jobs:
        raise _refused(NO_JOBS)
    number = call.state.next_id("pipeline")
    address = f"{project.web_url}/-/pipelines/{number}"
    made = Pipeline(number, body["ref"], sha, address, call.caller.user, variables)
    project.pipelines.append(made)
    for name, status in project.pipeline_jobs.items():
        nowhere = call.state.root / "no-artifacts"
        job = PipelineJob(call.state.next_id("job"), number, name, nowhere, made.user, status)
        project.jobs.append(job)
    return Answer(201, _json(made, project))


def _show(call: Call) -> Answer:
    for pipeline in call.project.pipelines:
        if str(pipeline.id) == call.values["pipeline"]:
            return Answer(200, _json(pipeline, call.project))
    raise ApiError(404, {"message": "404 Not found"})


def _play(call: Call) -> Answer:
    jobs = call.project.jobs
    for number, job in enumerate(jobs):
        if str(job.id) == call.values["job"]:
            if job.status != "manual":
                raise ApiError(400, {"message": "400 Bad request - Unplayable Job"})
            jobs[number] = replace(job, status="pending", user=call.caller.user)
            return Answer(200, job_json(jobs[number], call.state.url))
    raise ApiError(404, {"message": "404 Not found"})


def _refused(why: str) -> ApiError:
    return ApiError(400, {"message": {"base": [why]}})


def _json(pipeline: Pipeline, project: Project) -> dict[str, Any]:
    return {
        "id": pipeline.id,
        "project_id": project.id,
        "ref": pipeline.ref,
        "sha": pipeline.sha,
        "status": "created",
        "source": "api",
        "web_url": pipeline.web_url,
    }


PIPELINES = "projects/{id}/pipelines"
ENDPOINTS = (
    Endpoint("POST", "projects/{id}/pipeline", _create, DEVELOPER, WRITE),
    Endpoint("GET", f"{PIPELINES}/{{pipeline}}", _show, REPORTER),
    Endpoint("POST", "projects/{id}/jobs/{job}/play", _play, DEVELOPER, WRITE),
)
