"""``fleet-plan.json``: what ``fleet plan`` chose, and the costs of nights that it has read."""

from dataclasses import dataclass
from typing import Literal

VERSION = 1
Decision = Literal["start", "later", "wait", "started", "no"]
"""``start``: now; ``later``: at its hour; ``wait``: too many are running; ``started``: tonight."""


@dataclass(frozen=True)
class PlannedProject:
    """A project, what was decided and why; ``at`` is its hour, ISO 8601, ``limit_usd`` what its
    night may cost."""

    id: int
    path: str
    decision: Decision
    reason: str
    at: str
    limit_usd: float


@dataclass(frozen=True)
class NightCost:
    """What a night that has ended has cost; ``usd`` is None where its result is gone, or it left
    none: then ``limit_usd`` counts. ``night`` is ``<project's id>/<pipeline's id>``."""

    night: str
    day: str
    usd: float | None
    limit_usd: float

    @property
    def counted_usd(self) -> float:
        """What the budget counts."""
        return self.limit_usd if self.usd is None else self.usd


@dataclass(frozen=True)
class FleetPlan:
    """The plan of one hour. Moments are ISO 8601; ``spent_*`` are costs and, for nights that have
    not reported, limits; ``reserved_usd`` is for the nights that are still to start tonight."""

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
    version: int = VERSION
