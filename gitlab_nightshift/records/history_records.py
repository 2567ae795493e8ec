"""The history of many nights: merge requests, and results that have not expired."""

import datetime as dt
from dataclasses import dataclass

IGNORED_AFTER = dt.timedelta(weeks=2)
"""How long an open merge request may wait before it counts as ignored."""


@dataclass(frozen=True)
class PastMergeRequest:
    """A night's merge request; ``state`` is opened, merged or closed. Times are ISO 8601, ``ended``
    is "" while it is open; ``reasons`` are people's words why they rejected it, ``reviewers`` are
    user names."""

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
    """A night that ran in a pipeline. ``outcome`` is "" and ``cost_usd`` None without its result;
    ``failure`` is the code and the reason of a failed night, "" for others."""

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
    """The history, newest first. ``unknown`` names what could not be read."""

    merge_requests: tuple[PastMergeRequest, ...] = ()
    nights: tuple[PastNight, ...] = ()
    unknown: tuple[str, ...] = ()
