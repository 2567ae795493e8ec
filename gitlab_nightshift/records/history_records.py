"""What is left of many nights: merge requests and the nights that can still be read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PastMergeRequest:
    """A night's merge request; ``state`` is opened, merged or closed. Moments are ISO 8601,
    ``ended`` is "" while it is open; ``reasons`` are why people refused it, in their words."""

    project: str
    iid: int
    title: str
    web_url: str
    category: str
    state: str
    opened: str
    ended: str
    run_id: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class PastNight:
    """A night that ran in a pipeline. ``outcome`` is "" and ``cost_usd`` None where its artifacts
    are gone, or say nothing."""

    project: str
    run_id: str
    web_url: str
    started: str
    outcome: str = ""
    category: str = ""
    cost_usd: float | None = None


@dataclass(frozen=True)
class NightHistory:
    """Newest first. ``unknown`` says what could not be read."""

    merge_requests: tuple[PastMergeRequest, ...] = ()
    nights: tuple[PastNight, ...] = ()
    unknown: tuple[str, ...] = ()
