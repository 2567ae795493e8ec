"""Pipelines by the API: start one, list its jobs, play a manual one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.ci_settings import FLEET_SCHEDULE
from gitlab_nightshift.text.gitlab_refusals import AS_DEVELOPER
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.gitlab.client import Client

PAGE = 100
FINISHED = frozenset({"success", "failed", "canceled", "skipped"})
"""Statuses of a job that will not change by itself."""
NOT_RUN = frozenset({"canceled", "canceling", "skipped"})
"""Statuses of a pipeline that ended, or ends, without having been a night."""
MANUAL = "manual"
APPROVE_JOB = "nightshift:approve"
"""The template's manual job that publishes what waits."""
_EXPANDED = compile_lazily(r"%[A-Za-z_]\w*%", re.ASCII)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline and its address."""

    id: int
    web_url: str


@dataclass(frozen=True)
class Job:
    """A job of a pipeline; ``status`` is GitLab's word."""

    id: int
    name: str
    status: str

    @property
    def finished(self) -> bool:
        """True where the job has ended, or will never start."""
        return self.status in FINISHED


class Pipelines:
    """The pipelines of a project. Every method may raise :class:`ApiError`."""

    def __init__(self, client: "Client", project: str) -> None:
        self._client, self._project = client, project
        self._remote = client.projects.get(project, lazy=True)

    def start(self, ref: str, variables: Mapping[str, str]) -> Pipeline:
        """A new pipeline on a branch ("": the default one), with variables whose values arrive as
        they are given."""
        # Not Project.facts: up to Python 3.11 one lock holds up all threads that ask for one.
        ref = ref or str(self._client.projects.get(self._project).default_branch or "")
        pairs = [{"key": name, "value": escape_value(value)} for name, value in variables.items()]
        try:
            made = self._remote.pipelines.create({"ref": ref, "variables": pairs})
        except ApiError as error:
            raise _explain_error(error, ref) from None
        return _read_pipeline(made.attributes)

    def get(self, pipeline: int) -> Pipeline:
        """A pipeline of this project."""
        return _read_pipeline(self._remote.pipelines.get(pipeline).attributes)

    def list_scheduled(self, ref: str, most: int) -> tuple[int, ...]:
        """The ids of the newest pipelines that a schedule has started on a branch."""
        found = self._remote.pipelines.list(
            source="schedule", ref=ref, order_by="id", sort="desc", per_page=most, get_all=False
        )
        return tuple(int(each.id) for each in found)

    def list_of_fleet(self, since: str) -> tuple[Pipeline, ...]:
        """The pipelines that the fleet's schedule has started since a moment (ISO 8601), newest
        first, without those that were cancelled."""
        at = f"/projects/{quote(self._project, safe='')}/pipeline_schedules"
        schedules = [
            row["id"]
            for row in self._client.read_all_rows(at)
            if row.get("description") == FLEET_SCHEDULE
        ]
        rows = [
            row
            for each in schedules
            for row in list_of_schedule(self._client, f"{at}/{each}", since)
        ]
        return tuple(_read_pipeline(row) for row in rows if row["status"] not in NOT_RUN)

    def find_user(self, pipeline: int) -> str:
        """The user name of whoever started a pipeline."""
        return str((self._remote.pipelines.get(pipeline).attributes.get("user") or {})["username"])

    def list_jobs(
        self, pipeline: int | str, *, retried: bool = False, whole: bool = True
    ) -> tuple[Job, ...]:
        """The jobs of a pipeline: the last try of each, with ``retried`` the earlier ones too.
        Without ``whole`` no more than one request can tell."""
        remote = self._remote.pipelines.get(pipeline, lazy=True)
        again = str(retried).lower()
        found = remote.jobs.list(get_all=whole, per_page=PAGE, include_retried=again)
        return tuple(Job(int(each.id), str(each.name), str(each.status)) for each in found)

    def find_newest_job(self, pipeline: str, name: str) -> int | None:
        """The id of a pipeline's job of this name, the last try; None where there is none."""
        found = call_or_none(lambda: self.list_jobs(pipeline), 404)
        return max((job.id for job in found or () if job.name == name), default=None)

    def play(self, job: int) -> None:
        """Start a manual job."""
        self._remote.jobs.get(job, lazy=True).play()


def list_of_schedule(client: "Client", schedule: str, since: str) -> list[dict[str, Any]]:
    """The pipelines of a schedule, by its path, since a moment (ISO 8601), newest first. An older
    GitLab knows neither this filter nor an order, and shows them all."""
    at, first = f"{schedule}/pipelines", datetime.fromisoformat(since)
    rows = client.read_rows(at, created_after=since, sort="desc")
    if any(_read_creation(row) < first for row in rows):
        rows = client.read_all_rows(at)
    found = (row for row in rows if _read_creation(row) >= first)
    return sorted(found, key=lambda row: int(row["id"]), reverse=True)


def _read_creation(row: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(row["created_at"]))


def escape_value(value: str) -> str:
    """A value that arrives unchanged: GitLab and the runner replace ``$NAME``, ``${NAME}`` and
    ``%NAME%`` by the values of other variables, a token's too.

    The runner turns ``$$`` back into ``$``. Nothing does so for ``%%``, so percent signs are
    doubled only in a value that has the form of such a name.
    """
    value = value.replace("$", "$$")
    return value.replace("%", "%%") if _EXPANDED.search(value) else value


def _read_pipeline(data: Mapping[str, Any]) -> Pipeline:
    return Pipeline(int(data["id"]), str(data["web_url"]))


def _explain_error(error: ApiError, ref: str) -> ApiError:
    """GitLab's refusal with what to do about it."""
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
        hint = "look into the project's pipelines, it may have started all the same"
    elif error.status in (401, 403) and not hint:
        hint = (error.remedy or AS_DEVELOPER).text
    if not hint:
        return error
    return ApiError(
        f"{error.message}; {hint}", status=error.status, reason=error.reason, lasting=error.lasting
    )
