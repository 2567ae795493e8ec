"""What is left of many nights: merge requests and the nights that can still be read."""

import datetime as dt
from dataclasses import dataclass

IGNORED_AFTER = dt.timedelta(weeks=2)
"""How long an open merge request may wait before it counts as ignored."""


@dataclass(frozen=True)
class PastMergeRequest:
    """A night's merge request; ``state`` is opened, merged or closed. Moments are ISO 8601,
    ``ended`` is "" while it is open; ``reasons`` are why people refused it, in their words,
    ``reviewers`` are user names."""

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
    reviewers: tuple[str, ...] = ()


@dataclass(frozen=True)
class PastNight:
    """A night that ran in a pipeline. ``outcome`` is "" and ``cost_usd`` None where its artifacts
    are gone, or say nothing; ``failure`` is why it failed, with its code, "" for one that did
    not."""

    project: str
    run_id: str
    web_url: str
    started: str
    outcome: str = ""
    category: str = ""
    cost_usd: float | None = None
    failure: str = ""


@dataclass(frozen=True)
class NightHistory:
    """Newest first. ``unknown`` says what could not be read."""

    merge_requests: tuple[PastMergeRequest, ...] = ()
    nights: tuple[PastNight, ...] = ()
    unknown: tuple[str, ...] = ()
