"""What this program knows of GitLab's things, and what it hands over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.gitlab.marker import Marker, read_marker

NIGHT_LABEL = "night-shift"
"""The label of every merge request of a night, unless ``labels`` says otherwise."""


@dataclass(frozen=True)
class Facts:
    """What the project says of itself."""

    id: int
    path: str
    visibility: str
    default_branch: str
    http_url: str


@dataclass(frozen=True)
class MergeRequest:
    """A merge request as it stands in GitLab; ``state`` is opened, closed, merged or locked."""

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
    """A merge request to open; ``reviewer_ids`` become the assignees too."""

    title: str
    body: str
    source_branch: str
    target_branch: str
    labels: tuple[str, ...] = ()
    reviewer_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Label:
    """A label with what it gets where it has to be made."""

    name: str
    color: str
    description: str


def merge_request_of(data: Mapping[str, Any]) -> MergeRequest:
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
