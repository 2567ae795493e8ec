"""GitLab: the only code that uses python-gitlab. Importing this package loads none of it."""

from gitlab_nightshift.gitlab.access import DEVELOPER, Access
from gitlab_nightshift.gitlab.errors import ApiError
from gitlab_nightshift.gitlab.jobs import Started
from gitlab_nightshift.gitlab.marker import Marker, fingerprint, read_marker, write_marker
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.retry import Clock, Patience, transient
from gitlab_nightshift.gitlab.things import (
    NIGHT_LABEL,
    Facts,
    Label,
    MergeRequest,
    NewMergeRequest,
)

__all__ = [
    "DEVELOPER",
    "NIGHT_LABEL",
    "Access",
    "ApiError",
    "Clock",
    "Facts",
    "Label",
    "Marker",
    "MergeRequest",
    "NewMergeRequest",
    "Patience",
    "Project",
    "Started",
    "fingerprint",
    "open_project",
    "read_marker",
    "transient",
    "write_marker",
]
