"""GitLab: the only code that uses python-gitlab. Importing this package loads none of it."""

from gitlab_nightshift.gitlab.access import DEVELOPER, Access
from gitlab_nightshift.gitlab.api_error import ApiError, transient
from gitlab_nightshift.gitlab.job_starter import JobStart
from gitlab_nightshift.gitlab.marker import Marker, compute_fingerprint, read_marker, write_marker
from gitlab_nightshift.gitlab.project import Project, open_project
from gitlab_nightshift.gitlab.resources import (
    NIGHT_LABEL,
    Label,
    MergeRequest,
    NewMergeRequest,
    ProjectFacts,
)

__all__ = [
    "DEVELOPER",
    "NIGHT_LABEL",
    "Access",
    "ApiError",
    "JobStart",
    "Label",
    "Marker",
    "MergeRequest",
    "NewMergeRequest",
    "Project",
    "ProjectFacts",
    "compute_fingerprint",
    "open_project",
    "read_marker",
    "transient",
    "write_marker",
]
