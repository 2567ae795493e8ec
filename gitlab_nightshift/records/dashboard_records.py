"""What the dashboard issue keeps from night to night, and what is shown beside it.

Money is in USD, durations are in seconds, days are ISO 8601.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from gitlab_nightshift.records.field_bounds import Between, Length
from gitlab_nightshift.records.products import KnownMergeRequest, Outcome

MOST_NIGHTS, MOST_RESTORED, MOST_ANSWERS = 14, 40, 10
_Line = Annotated[str, Length(300)]
_Number = Annotated[int, Between(0, 1 << 53)]


@dataclass(frozen=True)
class DashboardNight:
    """One night's row; ``cost_usd`` is None where it is not known."""

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
    """Kept in the issue: the last nights, the newest first; ``restored`` are numbers of rejected
    merge requests that may be proposed again, ``last_note`` the newest system note that was taken
    up, ``answers`` what became of the last boxes."""

    nights: Annotated[tuple[DashboardNight, ...], Length(MOST_NIGHTS)] = ()
    restored: Annotated[tuple[_Number, ...], Length(MOST_RESTORED)] = ()
    last_note: _Number = 0
    answers: Annotated[tuple[_Line, ...], Length(MOST_ANSWERS)] = ()
    version: Annotated[int, Between(1, 1)] = 1

    def add_night(self, night: DashboardNight) -> "DashboardMemory":
        """With this night's row; a retried job replaces its own."""
        others = (each for each in self.nights if each.run_id != night.run_id)
        return dataclasses.replace(self, nights=(night, *others)[:MOST_NIGHTS])


@dataclass(frozen=True)
class CategoryOutlook:
    """When a category comes next: ``day`` is None without one in the schedule, ``reason`` why it
    would be left out now."""

    category: str
    day: str | None
    reason: str = ""


@dataclass(frozen=True)
class Dashboard:
    """All that the page shows. ``paused`` is why nights pause, "" where they do not."""

    memory: DashboardMemory
    opened: tuple[KnownMergeRequest, ...] = ()
    rejected: tuple[KnownMergeRequest, ...] = ()
    outlook: tuple[CategoryOutlook, ...] = ()
    paused: str = ""
    unknown: tuple[str, ...] = ()
