"""The service's calls to GitLab: start a run, follow it, read its result, approve it.

Artifacts are hostile data, perhaps written by an agent. This module imports the GitLab library at
once: threads that import it at the same time may see it half initialized.
"""

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ValidationError

import gitlab_nightshift.gitlab.client  # noqa: F401
from gitlab_nightshift.chat.chat_settings import ChatSettings
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.pipelines import APPROVE_JOB, MANUAL, Job, Pipeline
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.records.products import ChangeSize, Outcome
from gitlab_nightshift.records.request import TaskCommand, build_pipeline_variables
from gitlab_nightshift.system.retry import Clock

_Text = Annotated[str, AfterValidator(lambda text: text[:10_000])]


class ExecutedCommand(BaseModel):
    """A command that was run on the change."""

    command: _Text
    exit_status: int | None = None


class Result(BaseModel):
    """The keys of ``result.json`` that a message shows; ``published.json`` has them too."""

    outcome: Outcome
    error_code: _Text = ""
    reason: _Text = ""
    summary: _Text = ""
    mr_url: _Text = ""
    branch: _Text = ""
    total_cost_usd: float | None = None
    assumed_tokens: int = 0
    total_duration_s: float | None = None
    commands: list[ExecutedCommand] = []
    reported: list[ExecutedCommand] = []


_NO_CHANGE = ChangeSize((), 0, 0)


class _Draft(BaseModel):
    title: _Text = ""


class _Proposal(BaseModel):
    change: ChangeSize = _NO_CHANGE
    draft: _Draft = _Draft()


class _Bundle(BaseModel):
    proposal: _Proposal | None = None


@dataclass(frozen=True)
class EndedRun:
    """A run that ended: its result, the title and size of its change, and the ``patch`` of a dry
    run."""

    result: Result
    title: str = ""
    change: ChangeSize = _NO_CHANGE
    patch: bytes = b""


def read_ended_run(result: bytes, bundle: bytes | None) -> EndedRun | None:
    """A run by its ``result.json`` and ``bundle.json``; None for an invalid result."""
    parsed_result = _parse(Result, result)
    if parsed_result is None:
        return None
    parsed_bundle = _parse(_Bundle, bundle) if bundle else None
    if parsed_bundle is None or parsed_bundle.proposal is None:
        return EndedRun(parsed_result)
    proposal = parsed_bundle.proposal
    return EndedRun(parsed_result, proposal.draft.title, proposal.change)


_Model = TypeVar("_Model", bound=BaseModel)


def _parse(model: type[_Model], data: bytes) -> _Model | None:
    try:
        return model.model_validate(json.loads(data))
    except (ValueError, ValidationError, RecursionError):
        return None


# --- GitLab ---------------------------------------------------------------------------------------

TIMEOUT_S, PATIENCE_S = 15.0, 40.0
"""Seconds for one request, and for a request with all retries."""
LARGEST_FILE = 4_000_000
"""Bytes."""
MOST_JOBS = 10
LAST_JOBS = (APPROVE_JOB, "nightshift:publish", "nightshift")
"""The jobs that end a run; a result of an earlier one in this list is preferred."""
_RESULTS = ("nightshift/result.json", "nightshift/published.json")
_BUNDLE = "nightshift/bundle/bundle.json"
_PATCH = "nightshift/bundle/change.patch"


@dataclass(frozen=True)
class GitLab:
    """The project, with the service's token. Methods block, and raise NightshiftError; retries end
    once ``stopping`` is set."""

    settings: ChatSettings
    stopping: threading.Event = field(default_factory=threading.Event)

    def start(self, command: TaskCommand) -> Pipeline:
        """Start a pipeline for the task."""
        variables = build_pipeline_variables(command)
        return self._open_project().pipelines.start(self.settings.ref, variables)

    def fetch_pipeline(self, pipeline_id: int) -> Pipeline:
        """A pipeline of the project."""
        return self._open_project().pipelines.get(pipeline_id)

    def list_jobs(self, pipeline_id: int) -> tuple[Job, ...]:
        """The jobs of a pipeline."""
        return self._open_project().pipelines.list_jobs(pipeline_id)

    def find_result(self, jobs: Sequence[Job], job_name: str = "") -> EndedRun | None:
        """The result of these jobs, or only of the named one; None if there is none."""
        project = self._open_project()
        for job in sort_ended_jobs(select_jobs(jobs, job_name))[:MOST_JOBS]:
            for file in _RESULTS:
                result = _read_artifact(project, job.id, file)
                if not result:
                    continue
                ended = read_ended_run(result, _read_artifact(project, job.id, _BUNDLE))
                if ended and ended.result.outcome is Outcome.MR_READY:
                    return replace(ended, patch=_read_artifact(project, job.id, _PATCH) or b"")
                if ended:
                    return ended
        return None

    def approve(self, pipeline_id: int) -> Job:
        """Start the manual job that publishes, and return it."""
        pipelines = self._open_project().pipelines
        job = next((job for job in pipelines.list_jobs(pipeline_id) if can_approve(job)), None)
        if job is None:
            text = f"no job {APPROVE_JOB} waits in pipeline {pipeline_id}: was it already decided?"
            raise NightshiftError(Code.CONFIG, text)
        pipelines.play(job.id)
        return job

    def record_approval(self, ended: EndedRun, approver: str) -> None:
        """Say in a comment on the merge request who approved it in the chat: GitLab only knows that
        this service started the job."""
        match = re.search(r"/-/merge_requests/([0-9]{1,9})$", ended.result.mr_url)
        if match:
            text = f"Approved in Discord by {approver}."
            self._open_project().threads.add_comment("merge_requests", int(match[1]), text)

    def _open_project(self) -> Project:
        settings = self.settings
        return open_project(
            settings.gitlab_url,
            settings.project,
            settings.gitlab_token,
            timeout_s=TIMEOUT_S,
            patience_s=PATIENCE_S,
            clock=Clock(sleep=self._sleep),
        )

    def _sleep(self, seconds: float) -> None:
        if self.stopping.wait(seconds):
            raise NightshiftError(Code.TERMINATED, "the service stops")


def select_jobs(jobs: Sequence[Job], name: str) -> Sequence[Job]:
    """The jobs with this name; all of them for ""."""
    return [job for job in jobs if name in ("", job.name)]


def has_ended(jobs: Sequence[Job], job_name: str = "") -> bool:
    """True if the named job has ended; for "" the last job of the run, or all jobs if none has a
    name from the template."""
    if job_name:
        return all(job.finished for job in select_jobs(jobs, job_name))
    last_jobs = [job for job in jobs if job.name in LAST_JOBS and job.name != APPROVE_JOB]
    if last_jobs:
        return all(job.finished for job in last_jobs)
    return bool(jobs) and all(job.finished or job.status == MANUAL for job in jobs)


def can_approve(job: Job) -> bool:
    """True if this is the job that publishes after an approval, and it can be started."""
    # GitLab turns a created job into a manual one some time after the job before it has ended.
    return job.name == APPROVE_JOB and job.status in (MANUAL, "created")


def sort_ended_jobs(jobs: Sequence[Job]) -> list[Job]:
    """Jobs that ended, the last step of the run first."""
    rank = {name: number for number, name in enumerate(LAST_JOBS)}
    ended = [job for job in jobs if job.status in ("success", "failed", "canceled")]
    return sorted(ended, key=lambda job: (rank.get(job.name, len(rank)), -job.id))


def _read_artifact(project: Project, job: int, name: str) -> bytes | None:
    """A file of a job's artifacts; None if it is missing or too large."""
    try:
        return project.download_artifact(job, name, LARGEST_FILE)
    except ApiError as error:
        # Status 200 with a lasting error: the file is larger than the limit.
        if error.status == 404 or (error.status == 200 and error.lasting):
            return None
        raise
