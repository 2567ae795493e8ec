"""Records of many nights: what the dashboard issue stores, and the history that GitLab has.

Money is in USD, durations are in seconds, times and days are ISO 8601.
"""

import dataclasses
import datetime as dt
from dataclasses import dataclass
from typing import Annotated

from gitlab_nightshift.records.codec import Between, Length
from gitlab_nightshift.records.products import KnownMergeRequest, Outcome

MOST_NIGHTS, MOST_RESTORED, MOST_ANSWERS = 14, 40, 10
"""Entries in the dashboard issue: GitLab limits the length of its description."""
_Line = Annotated[str, Length(300)]
_Number = Annotated[int, Between(0, 1 << 53)]


@dataclass(frozen=True)
class DashboardNight:
    """A night in the dashboard's table; ``cost_usd`` is None if unknown."""

    run_id: _Line
    day: _Line
    outcome: Outcome
    category: _Line
    text: _Line
    mr_url: _Line = ""
    pipeline_url: _Line = ""
    cost_usd: float | None = None
    duration_s: float = 0.0


@dataclass(frozen=True)
class DashboardMemory:
    """The data in the dashboard issue. ``nights`` are the last ones, newest first; ``restored`` are
    the numbers of rejected merge requests whose ideas may be proposed again; ``last_note`` is the
    id of the newest system note that was processed; ``answers`` are those to the last ticked
    boxes."""

    nights: Annotated[tuple[DashboardNight, ...], Length(MOST_NIGHTS)] = ()
    restored: Annotated[tuple[_Number, ...], Length(MOST_RESTORED)] = ()
    last_note: _Number = 0
    answers: Annotated[tuple[_Line, ...], Length(MOST_ANSWERS)] = ()
    version: Annotated[int, Between(1, 1)] = 1

    def add_night(self, night: DashboardNight) -> "DashboardMemory":
        """A copy with this night, which replaces an earlier try of the same run."""
        others = (other for other in self.nights if other.run_id != night.run_id)
        return dataclasses.replace(self, nights=(night, *others)[:MOST_NIGHTS])


@dataclass(frozen=True)
class CategoryOutlook:
    """The next ``day`` of a category, None if it is not scheduled. ``reason`` is why it would be
    left out now, "" if it would not."""

    category: str
    day: str | None
    reason: str = ""


@dataclass(frozen=True)
class Dashboard:
    """The content of the dashboard's page. ``opened`` and ``rejected`` are merge requests of
    nights; ``paused`` is why nights pause, "" if they do not."""

    memory: DashboardMemory
    opened: tuple[KnownMergeRequest, ...] = ()
    rejected: tuple[KnownMergeRequest, ...] = ()
    outlook: tuple[CategoryOutlook, ...] = ()
    paused: str = ""
    unknown: tuple[str, ...] = ()


# --- history that GitLab has ----------------------------------------------------------------------

IGNORED_AFTER = dt.timedelta(weeks=2)
"""How long an open merge request may wait before it counts as ignored."""


@dataclass(frozen=True)
class PastMergeRequest:
    """A night's merge request. ``state`` is opened, merged or closed; ``ended`` is "" while it is
    open; ``reasons`` are what people wrote when they rejected it; ``reviewers`` are user names."""

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
    """A night that ran in a pipeline. Without a result, ``outcome`` is "" and ``cost_usd`` None.
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
