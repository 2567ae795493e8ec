"""Records of a fleet: its projects as GitLab has them, and ``fleet-plan.json``.

Times are ISO 8601, "" for none.
"""

from dataclasses import dataclass
from typing import Literal

ACTIVE_STATUSES = frozenset(
    "created waiting_for_resource preparing waiting_for_callback pending running canceling".split()
)
"""Statuses of a running pipeline (https://docs.gitlab.com/api/pipelines): not ``manual`` or
``scheduled``, which wait for a person or a time."""


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
    """A scheduled pipeline with a night. ``status`` is GitLab's in lower case; ``user`` owns the
    schedule, or has played it; ``job`` is the id of the job with the result, 0 for none yet;
    ``started`` is False until a job has started."""

    pipeline: int
    status: str
    created: str
    finished: str
    user: str
    job: int
    started: bool = True

    @property
    def running(self) -> bool:
        """True until the pipeline ends, even while it waits for a runner."""
        return self.status in ACTIVE_STATUSES


@dataclass(frozen=True)
class NightSettings:
    """The settings of a project's nightshift.yaml that a fleet needs, with their defaults.

    ``found`` is False if the project has no such file; ``error`` says what is wrong with the file,
    "" if it is valid. ``max_open`` limits the nights' open merge requests; ``weekdays`` are those
    with a category.
    """

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
    """A project of the fleet. ``forked`` and ``deleted`` are None if this GitLab lacks the field;
    ``included`` is True if ``.gitlab-ci.yml`` includes the template, None if the project's pipeline
    is defined in another file. ``nights`` and ``merge_requests`` are the latest, newest first;
    ``older`` is GitLab's cursor for the nights before those, "" for none."""

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
        """True with a settings file, unless the template is known to be missing."""
        return self.included is not False and self.settings.found


@dataclass(frozen=True)
class Discovery:
    """The fleet's projects. ``account`` is the user name of the token's owner. Missing groups and
    projects do not exist, or are invisible to the token. ``unknown`` names gaps in the answers."""

    account: str
    projects: tuple[FleetProject, ...]
    missing_groups: tuple[str, ...] = ()
    missing_projects: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


# --- fleet-plan.json ------------------------------------------------------------------------------

PLAN_VERSION = 1
StartDecision = Literal["start", "later", "wait", "started", "no"]
"""When a project's night starts. ``start``: now; ``later``: at the project's hour; ``wait``: once
fewer nights run, or it is clear that the last plan did not start it; ``started``: it has, tonight;
``no``: not tonight."""


@dataclass(frozen=True)
class PlannedProject:
    """A project and the decision about its night, with the reason. ``at`` is the project's hour;
    ``limit_usd`` limits the cost of its night."""

    id: int
    path: str
    decision: StartDecision
    reason: str
    at: str
    limit_usd: float


@dataclass(frozen=True)
class NightCost:
    """The cost of a finished night. ``usd`` is None if the night left no result: then ``limit_usd``
    counts. ``night`` is ``<project id>/<pipeline id>``."""

    night: str
    day: str
    usd: float | None
    limit_usd: float

    @property
    def counted_usd(self) -> float:
        """The cost that counts for budgets."""
        return self.limit_usd if self.usd is None else self.usd


@dataclass(frozen=True)
class FleetPlan:
    """The plan of one hour, and the costs of earlier nights that it is based on. ``spent_*`` are
    costs and, for nights without a result, limits; ``reserved_usd`` is for nights that are still to
    start tonight."""

    night: str
    made_at: str
    window_start: str
    window_end: str
    account: str
    spent_night_usd: float
    spent_month_usd: float
    reserved_usd: float
    running: int
    projects: tuple[PlannedProject, ...]
    costs: tuple[NightCost, ...]
    unknown: tuple[str, ...] = ()
    version: int = PLAN_VERSION
