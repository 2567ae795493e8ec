"""What only tests ask the stand-in for: issues, pipelines, schedules; and their JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gitlab_nightshift.demo.standin_api import StandinCall
from gitlab_nightshift.demo.standin_json import Json, build_user_json
from gitlab_nightshift.demo.standin_state import StandinNote, StandinProject, User
from tests.support.standin_repositories import Push, read_pushes


@dataclass(frozen=True)
class PipelineJob:
    """A job; ``artifacts`` is the folder of what it has uploaded, ``user`` who started it, ``log``
    what it has printed, ``started`` whether a runner has taken it."""

    id: int
    pipeline: int
    name: str
    artifacts: Path
    user: User | None = None
    status: str = "success"
    log: str = ""
    failure_reason: str = "script_failure"
    allow_failure: bool = False
    started: bool = True


@dataclass(frozen=True)
class StandinPipeline:
    """A pipeline as it was asked for; ``variables`` as they were sent, ``schedule`` the id of the
    one that it came from, 0 for none. Moments are ISO 8601."""

    id: int
    ref: str
    sha: str
    web_url: str
    user: User
    variables: Mapping[str, str]
    source: str = "api"
    schedule: int = 0
    created_at: str = "2026-01-01T00:00:00Z"
    finished_at: str | None = None


@dataclass
class StandinSchedule:
    """A pipeline schedule; its owner and Maintainers see the ``variables``."""

    id: int
    owner: User
    description: str = "nightly"
    ref: str = "refs/heads/main"
    active: bool = True
    variables: Mapping[str, str] = field(default_factory=lambda: {"NIGHTSHIFT": "true"})
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Issue:
    """An issue within one project."""

    id: int
    iid: int
    web_url: str
    author: User
    title: str
    description: str | None = None
    confidential: bool = False
    state: str = "opened"
    notes: list[StandinNote] = field(default_factory=list)


class StandinNoteable(Protocol):
    """What can be commented on: an issue or a merge request."""

    @property
    def id(self) -> int:
        """Its number on the whole server."""

    @property
    def iid(self) -> int:
        """Its number in the project."""

    @property
    def notes(self) -> list[StandinNote]:
        """The comments, oldest first."""


@dataclass
class FullProject(StandinProject):
    """A project with all that tests ask of one. ``members`` are the roles of users by their ids,
    ``pipeline_jobs`` the jobs of a new pipeline and their first status. ``variables`` are the
    project's own as REST shows them, ``push_rule`` likewise, ``inherited_variables`` those of its
    groups as GraphQL does; ``checked`` are the target's and the source's commit of merge requests
    that were looked at for conflicts, ``rebasing`` those whose rebase is not told as ended yet.
    ``files`` stand for those of a repository that does not exist."""

    jobs: list[PipelineJob] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    members: dict[int, int] = field(default_factory=dict)
    pipelines: list[StandinPipeline] = field(default_factory=list)
    pipeline_jobs: dict[str, str] = field(default_factory=dict)
    approval_rules: list[dict[str, Any]] = field(default_factory=list)
    schedules: list[StandinSchedule] = field(default_factory=list)
    variables: list[dict[str, Any]] = field(default_factory=list)
    inherited_variables: list[dict[str, Any]] = field(default_factory=list)
    push_rule: dict[str, Any] = field(default_factory=dict)
    checked: dict[int, tuple[str, str]] = field(default_factory=dict)
    rebasing: set[int] = field(default_factory=set)
    files: dict[str, str] | None = None
    topics: list[str] = field(default_factory=list)
    forked: bool = False
    deleted_on: str | None = None
    last_activity_at: str = "2026-01-01T00:00:00Z"

    @property
    def pushes(self) -> list[Push]:
        """Every branch or tag that was pushed over HTTP, in order."""
        return read_pushes(self.bare_repository)


def get_project(call: StandinCall) -> FullProject:
    """The project of the path."""
    return as_full(call.project)


def as_full(project: StandinProject) -> FullProject:
    """A project of a whole stand-in."""
    assert isinstance(project, FullProject)
    return project


def get_groups(call: StandinCall) -> Mapping[str, Mapping[int, int]]:
    """The members of groups: path → user → role."""
    groups: Mapping[str, Mapping[int, int]] = vars(call.state)["groups"]
    return groups


def build_job_json(job: PipelineJob, url: str) -> Json:
    """A job as the API shows it."""
    return {
        "id": job.id,
        "name": job.name,
        "status": job.status,
        "allow_failure": job.allow_failure,
        **({"failure_reason": job.failure_reason} if job.status == "failed" else {}),
        "pipeline": {"id": job.pipeline},
        "user": build_user_json(job.user, url) if job.user else None,
    }


def build_pipeline_json(pipeline: StandinPipeline, project: FullProject) -> Json:
    """A pipeline; its status follows from its jobs."""
    jobs = [job for job in project.jobs if job.pipeline == pipeline.id]
    return {
        "id": pipeline.id,
        "project_id": project.id,
        "ref": pipeline.ref,
        "sha": pipeline.sha,
        "status": find_status(jobs),
        "source": pipeline.source,
        "web_url": pipeline.web_url,
        "created_at": pipeline.created_at,
    }


def find_status(jobs: Sequence[PipelineJob]) -> str:
    """That of a pipeline with these jobs."""
    found = {"success" if job.allow_failure else job.status for job in jobs}
    ranked = ("running", "pending", "created", "failed", "canceled", "success", "manual")
    return next((each for each in ranked if each in found), "created")


def build_note_json(note: StandinNote, on: StandinNoteable, url: str) -> Json:
    """A comment on an issue or a merge request."""
    return {
        "id": note.id,
        "type": "DiffNote" if note.position else "DiscussionNote" if note.resolvable else None,
        "body": note.body,
        "author": build_user_json(note.author, url),
        "created_at": note.created_at,
        "updated_at": note.created_at,
        "system": note.system,
        "noteable_id": on.id,
        "noteable_type": "Issue" if isinstance(on, Issue) else "MergeRequest",
        "noteable_iid": on.iid,
        "resolvable": note.resolvable,
        **({"resolved": note.resolved} if note.resolvable else {}),
        **({"position": note.position} if note.position else {}),
        "confidential": note.internal,
        "internal": note.internal,
    }


def build_issue_json(issue: Issue, project: StandinProject, url: str) -> Json:
    """An issue."""
    return {
        "id": issue.id,
        "iid": issue.iid,
        "project_id": project.id,
        "title": issue.title,
        "description": issue.description,
        "state": issue.state,
        "confidential": issue.confidential,
        "author": build_user_json(issue.author, url),
        "labels": [],
        "user_notes_count": len(issue.notes),
        "web_url": issue.web_url,
    }
