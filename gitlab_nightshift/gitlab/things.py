"""What this program knows of GitLab's things, and what it hands over."""

from dataclasses import dataclass

from gitlab_nightshift.gitlab.marker import Marker

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
