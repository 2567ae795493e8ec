"""Projects of a fleet as GitLab shows them. Moments are ISO 8601, "" for none."""

from dataclasses import dataclass

ACTIVE = frozenset(
    "created waiting_for_resource preparing waiting_for_callback pending running canceling".split()
)
"""Statuses of a pipeline that goes on by itself."""


@dataclass(frozen=True)
class FleetMergeRequest:
    """A night's merge request; ``state`` is opened, merged, closed or locked, ``reviewers`` are
    user names."""

    iid: int
    title: str
    state: str
    created: str
    ended: str
    reviewers: tuple[str, ...]


@dataclass(frozen=True)
class FleetNight:
    """A scheduled pipeline with a night. ``status`` is GitLab's word in lower case, ``user`` who
    played the schedule, or owns it; ``job`` the id of the job that leaves the result, 0 for none
    yet. ``began`` is False where no job of it has."""

    pipeline: int
    status: str
    created: str
    finished: str
    user: str
    job: int
    began: bool = True

    @property
    def running(self) -> bool:
        """True until it has ended; a pipeline that waits for its runner counts."""
        return self.status in ACTIVE


@dataclass(frozen=True)
class NightSettings:
    """What a project's nightshift.yaml says, with its defaults; ``found`` is False where there is
    none, ``error`` what is wrong with it. ``reviewers`` as they are written there, ``max_open`` how
    many night merge requests may be open, ``weekdays`` those with a category."""

    found: bool = False
    enabled: bool = True
    limit_usd: float = 10.0
    output_dir: str = "nightshift"
    labels: tuple[str, ...] | None = None
    reviewers: tuple[str, ...] = ()
    max_open: int = 3
    weekdays: tuple[str, ...] = ("mon", "tue", "wed", "thu", "fri")
    timezone: str = "UTC"
    error: str = ""


@dataclass(frozen=True)
class FleetProject:
    """A project. ``forked`` and ``deleted`` are None where this GitLab does not say; ``included``
    is whether its pipeline includes the template, None where its file is elsewhere. ``nights`` and
    ``merge_requests`` are the newest, the newest first; ``older`` is where older nights go on, ""
    for none."""

    id: int
    path: str
    branch: str
    archived: bool
    empty: bool
    forked: bool | None
    deleted: bool | None
    topics: tuple[str, ...]
    last_activity: str
    included: bool | None
    settings: NightSettings
    merge_requests: tuple[FleetMergeRequest, ...]
    nights: tuple[FleetNight, ...]
    older: str = ""

    @property
    def set_up(self) -> bool:
        """True where a night could run: the template is included, and there is a settings file."""
        return self.included is not False and self.settings.found


@dataclass(frozen=True)
class Discovery:
    """What was found: ``account`` is the token's user, ``missing`` the groups and projects that
    are not there, or not for this token; ``unknown`` what GitLab does not say."""

    account: str
    projects: tuple[FleetProject, ...]
    missing_groups: tuple[str, ...] = ()
    missing_projects: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
