"""Pipelines and jobs: start and list them, find nights' unfinished jobs, and who started a job."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gitlab_nightshift.gitlab.accounts import read_member_level
from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.project_settings import FLEET_SCHEDULE
from gitlab_nightshift.gitlab.resources import PAGE_SIZE, build_project_path, read_global_id
from gitlab_nightshift.text.gitlab_refusals import AS_DEVELOPER
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

FINISHED = frozenset({"success", "failed", "canceled", "skipped"})
"""Final statuses of a job."""
NOT_RUN = frozenset({"canceled", "canceling", "skipped"})
"""Statuses of a pipeline in which no night ran."""
MANUAL = "manual"
"""The status of a job that waits for somebody to start it."""
APPROVE_JOB = "nightshift:approve"
"""The template's manual job that publishes a change awaiting approval."""
_PERCENT_VARIABLE = compile_lazily(r"%[A-Za-z_]\w*%", re.ASCII)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline and its address."""

    id: int
    web_url: str


@dataclass(frozen=True)
class Job:
    """A job of a pipeline, with GitLab's status."""

    id: int
    name: str
    status: str

    @property
    def finished(self) -> bool:
        """True if the job has ended or will never start."""
        return self.status in FINISHED


class Pipelines:
    """The pipelines of a project. Every method may raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: str) -> None:
        self._client, self._project = client, project
        self._remote = client.projects.get(project, lazy=True)

    def start(self, ref: str, variables: Mapping[str, str]) -> Pipeline:
        """Start a pipeline on a branch ("": the default one), with these literal values."""
        # Not Project.facts: before Python 3.12, a cached_property has one lock for all instances
        # (functools), so threads would wait for each other.
        ref = ref or str(self._client.projects.get(self._project).default_branch or "")
        pairs = [{"key": name, "value": escape_value(value)} for name, value in variables.items()]
        try:
            pipeline = self._remote.pipelines.create({"ref": ref, "variables": pairs})
        except ApiError as error:
            raise _explain_error(error, ref) from None
        return _read_pipeline(pipeline.attributes)

    def get(self, pipeline: int) -> Pipeline:
        """A pipeline of this project."""
        return _read_pipeline(self._remote.pipelines.get(pipeline).attributes)

    def list_scheduled(self, ref: str, most: int) -> tuple[int, ...]:
        """The ids of a branch's scheduled pipelines, newest first."""
        pipelines = self._remote.pipelines.list(
            source="schedule", ref=ref, order_by="id", sort="desc", per_page=most, get_all=False
        )
        return tuple(int(each.id) for each in pipelines)

    def list_fleet_pipelines(self, since: str) -> tuple[Pipeline, ...]:
        """The pipelines of the fleet's schedule since a moment (ISO 8601), newest first, without
        cancelled ones."""
        path = f"{build_project_path(self._project)}/pipeline_schedules"
        return tuple(
            _read_pipeline(pipeline)
            for schedule in self._client.read_all_pages(path)
            if schedule.get("description") == FLEET_SCHEDULE
            for pipeline in list_schedule_pipelines(self._client, f"{path}/{schedule['id']}", since)
            if pipeline["status"] not in NOT_RUN
        )

    def find_starter(self, pipeline: int) -> str:
        """The name of the user who started a pipeline."""
        return str((self._remote.pipelines.get(pipeline).attributes.get("user") or {})["username"])

    def list_jobs(
        self, pipeline: int | str, *, include_retried: bool = False, all_pages: bool = True
    ) -> tuple[Job, ...]:
        """The jobs of a pipeline: only the last try of each, or with ``include_retried`` all
        tries; without ``all_pages``, only the first 100."""
        remote = self._remote.pipelines.get(pipeline, lazy=True)
        retried = str(include_retried).lower()
        jobs = remote.jobs.list(get_all=all_pages, per_page=PAGE_SIZE, include_retried=retried)
        return tuple(Job(int(job.id), str(job.name), str(job.status)) for job in jobs)

    def find_newest_job(self, pipeline: str, name: str) -> int | None:
        """The id of the last try of a job; None if the pipeline has no job of this name."""
        jobs = call_or_none(lambda: self.list_jobs(pipeline), 404)
        return max((job.id for job in jobs or () if job.name == name), default=None)

    def play(self, job: int) -> None:
        """Start a manual job."""
        self._remote.jobs.get(job, lazy=True).play()


def list_schedule_pipelines(client: "Client", schedule: str, since: str) -> list[dict[str, Any]]:
    """The pipelines of a schedule (its API path) since a moment (ISO 8601), newest first."""
    path, since_time = f"{schedule}/pipelines", datetime.fromisoformat(since)
    rows = client.read_page(path, created_after=since, sort="desc")
    # An older GitLab ignores created_after and sort: then the first page may lack the newest.
    if any(_read_creation(row) < since_time for row in rows):
        rows = client.read_all_pages(path)
    newer = (row for row in rows if _read_creation(row) >= since_time)
    return sorted(newer, key=lambda row: int(row["id"]), reverse=True)


def _read_creation(row: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(row["created_at"]))


def escape_value(value: str) -> str:
    """Escape the value of a pipeline's variable: GitLab and the runner expand ``$NAME``,
    ``${NAME}`` and ``%NAME%``, even to the value of a token."""
    # The runner turns $$ back into $ (its common/variables.go), but leaves %% as it is, so percent
    # signs are doubled only where the value would be expanded otherwise.
    value = value.replace("$", "$$")
    return value.replace("%", "%%") if _PERCENT_VARIABLE.search(value) else value


def _read_pipeline(data: Mapping[str, Any]) -> Pipeline:
    return Pipeline(int(data["id"]), str(data["web_url"]))


def _explain_error(error: ApiError, ref: str) -> ApiError:
    hints = {
        "set pipeline variables": "set Settings > CI/CD > Variables > Minimum role to use pipeline"
        " variables to the token's role",
        "permission to run a pipeline": f"the token's role must be allowed to push or merge to"
        f" {ref}",
        "prevented any jobs": "is the night shift's template included on this branch?",
        "no stages / jobs": "is the night shift's template included on this branch?",
        "reference not found": f"there is no branch {ref}",
        "missing ci config": f"there is no .gitlab-ci.yml on {ref}",
    }
    reason = error.reason.lower()
    hint = next((hint for words, hint in hints.items() if words in reason), "")
    if not error.lasting and (error.status is None or error.status >= 500):
        hint = "check the project's pipelines: it may have started anyway"
    elif error.status in (401, 403) and not hint:
        hint = (error.remedy or AS_DEVELOPER).text
    if not hint:
        return error
    return ApiError(
        f"{error.message}; {hint}", status=error.status, reason=error.reason, lasting=error.lasting
    )


# --- jobs of nights -------------------------------------------------------------------------------

NIGHT_JOB = "nightshift"
"""The template's job, and the prefix of its jobs in three stages (``nightshift:work``)."""
MOST_PAGES = 20
"""Pages read of the unfinished jobs."""
_MANUAL_VARIABLES = "manualVariables(first: 100) { nodes { key value } }"  # GitLab 17.2 and newer
# A query may ask for the jobs of one project only: FieldCallCount, limit 1
# (app/graphql/resolvers/project_jobs_resolver.rb).
_QUERY = f"""
query($project: ID!, $after: String) {{ project(fullPath: $project) {{
  jobs(statuses: [CREATED, WAITING_FOR_RESOURCE, PREPARING, PENDING, RUNNING], first: 100,
       after: $after) {{
    pageInfo {{ endCursor hasNextPage }}
    nodes {{ id name status pipeline {{ id {_MANUAL_VARIABLES} }} }}
}} }} }}
"""


@dataclass(frozen=True)
class NightJob:
    """An unfinished job of a night. ``status`` is GitLab's, in capitals; ``variables`` are those
    with which somebody started the pipeline, by hand or by the API."""

    id: int
    name: str
    status: str
    pipeline: int
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def running(self) -> bool:
        """True once a runner has taken the job."""
        return self.status == "RUNNING"


def list_night_jobs(client: "Client", project: str) -> tuple[NightJob, ...]:
    """The unfinished jobs of nights in the project with this path. Raises ApiError."""
    night_jobs, after = list[NightJob](), None
    for _ in range(MOST_PAGES):
        answer = _request_jobs(client, {"project": project, "after": after})
        try:
            jobs = answer["project"]["jobs"]
            for row in jobs["nodes"]:
                if row["name"] == NIGHT_JOB or str(row["name"]).startswith(f"{NIGHT_JOB}:"):
                    night_jobs.append(_read_night_job(row))
            after = jobs["pageInfo"]["endCursor"]
            if not jobs["pageInfo"]["hasNextPage"]:
                return tuple(night_jobs)
        except (TypeError, KeyError):
            text = f"the jobs of {project} are not visible to this token"
            raise ApiError(text, lasting=True) from None
    raise ApiError(f"{project} has more than {MOST_PAGES * 100} unfinished jobs", lasting=True)


def _read_night_job(row: Mapping[str, Any]) -> NightJob:
    pipeline = row["pipeline"] or {}
    variables = (pipeline.get("manualVariables") or {}).get("nodes") or ()
    return NightJob(
        read_global_id(row["id"]),
        str(row["name"]),
        str(row["status"]),
        read_global_id(pipeline.get("id")),
        tuple((str(each["key"]), str(each["value"])) for each in variables),
    )


def _request_jobs(client: "Client", variables: Mapping[str, Any]) -> Any:
    """Query the jobs, without the pipelines' variables if this GitLab has no field for them."""
    try:
        return client.send_query(_QUERY, variables)
    except ApiError as error:
        if "'manualVariables' doesn't exist" not in error.message:
            raise
        return client.send_query(_QUERY.replace(_MANUAL_VARIABLES, ""), variables)


def cancel_job(client: "Client", project: str, job: int) -> bool:
    """Cancel a job; False if it no longer exists. It is safe to repeat: cancelling a finished job
    changes nothing. Raises ApiError."""
    path = f"{build_project_path(project)}/jobs/{job}/cancel"
    answer = call_or_none(lambda: client.send_idempotent(client.http_post, path), 404)
    return answer is not None


# --- who started a job ----------------------------------------------------------------------------


@dataclass(frozen=True)
class JobStart:
    """A job's pipeline and status, and the user who started it (of a manual job: who played it).

    ``level`` is that user's access level in the project (30 is Developer), 0 for somebody who is
    blocked or not a member.
    """

    pipeline: str
    status: str
    user_id: int
    login: str
    level: int


def read_job_start(client: "Client", project: str, job: str) -> JobStart | None:
    """Ask GitLab who started a job; None if there is no such job, or it has no user."""
    path = f"{build_project_path(project)}/jobs/{quote(job, safe='')}"
    row = call_or_none(lambda: client.read_object(path), 404) or {}
    user = row.get("user") or {}
    if not isinstance(user.get("id"), int):
        return None
    active = user.get("state", "active") == "active"
    return JobStart(
        pipeline=str((row.get("pipeline") or {}).get("id", "")),
        status=str(row.get("status")),
        user_id=user["id"],
        login=str(user.get("username", "")),
        level=read_member_level(client, project, user["id"]) if active else 0,
    )
