"""GitLab's resources as records: the fields that this program reads and sends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gitlab_nightshift.gitlab.marker import Marker, read_marker
from gitlab_nightshift.records.products import Outcome, Publication

PAGE_SIZE = 100
"""Items per page, the most that GitLab returns (docs.gitlab.com, REST API, "Pagination")."""
NIGHT_LABEL = "night-shift"
"""The label of a night's merge requests, unless ``labels`` sets others."""


@dataclass(frozen=True)
class ProjectFacts:
    """A project's attributes; None for those that GitLab does not show to this token."""

    id: int
    path: str
    visibility: str
    default_branch: str
    archived: bool | None = None
    empty: bool | None = None
    merge_requests: bool | None = None


@dataclass(frozen=True)
class MergeRequest:
    """A merge request in GitLab; ``state`` is opened, closed, merged or locked."""

    iid: int
    title: str
    web_url: str
    state: str
    source_branch: str
    target_branch: str
    sha: str
    labels: tuple[str, ...]
    reviewer_ids: tuple[int, ...]
    marker: Marker | None


@dataclass(frozen=True)
class NewMergeRequest:
    """A merge request to open. Its reviewers become its assignees too."""

    title: str
    body: str
    source_branch: str
    target_branch: str
    labels: tuple[str, ...] = ()
    reviewer_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Label:
    """A label, with the color and description for creating it."""

    name: str
    color: str
    description: str


def read_global_id(text: object) -> int:
    """The number in a GraphQL id such as ``gid://gitlab/Project/7``; 0 for none."""
    number = str(text or "").rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def build_project_path(project: str) -> str:
    """The API path of a project, by its id or its path."""
    return f"/projects/{quote(project, safe='')}"


def build_earlier_publication(run_id: str, existing: MergeRequest, category: str) -> Publication:
    """The result of publishing for a run that has already opened the merge request ``existing``.

    ``category`` is that of the change to publish. If ``existing`` has another category, the result
    is SKIPPED for that reason, without a merge request.
    """
    if existing.marker and existing.marker.category != category:
        text = f"this run has already opened !{existing.iid}, for {existing.marker.category}"
        return Publication(run_id, Outcome.SKIPPED, f"{text}: one run opens one merge request")
    closed = existing.state == "closed"
    state = "was closed meanwhile" if closed else f"is {existing.state}"
    return Publication(
        run_id=run_id,
        outcome=Outcome.SKIPPED if closed else Outcome.MR_CREATED,
        reason=f"already published: merge request !{existing.iid} {state}",
        mr_url=existing.web_url,
        mr_iid=existing.iid,
        branch=existing.source_branch,
        commit_sha=existing.sha,
        title=existing.title,
    )


def read_merge_request(data: Mapping[str, Any]) -> MergeRequest:
    """A merge request from GitLab's JSON."""
    reviewers: Sequence[Mapping[str, Any]] = data.get("reviewers") or ()
    return MergeRequest(
        iid=data["iid"],
        title=data["title"],
        web_url=data["web_url"],
        state=data["state"],
        source_branch=data["source_branch"],
        target_branch=data["target_branch"],
        sha=data.get("sha") or "",
        labels=tuple(data.get("labels") or ()),
        reviewer_ids=tuple(each["id"] for each in reviewers),
        marker=read_marker(data.get("description")),
    )
