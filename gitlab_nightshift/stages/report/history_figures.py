"""Figures over many nights. What is not known stays unknown: None, never 0."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from gitlab_nightshift.records.history_records import NightHistory, PastMergeRequest, PastNight

HISTORY_VERSION = 1


@dataclass(frozen=True)
class CategoryFigures:
    """Merge requests of a category. ``acceptance`` is the merged part of those that have ended,
    ``hours_to_merge`` the median; both None where none has."""

    category: str
    opened: int
    merged: int
    closed: int
    waiting: int
    acceptance: float | None
    hours_to_merge: float | None


@dataclass(frozen=True)
class WeekFigures:
    """A week by ISO 8601, as ``2026-W47``: nights, and what they are known to have cost."""

    week: str
    nights: int
    known: int
    cost_usd: float | None


@dataclass(frozen=True)
class HistoryFigures:
    """A history in figures. ``cost_usd`` is what is known of ``nights_known`` nights, and
    ``cost_per_merged_usd`` its share (None where nothing is known, or merged); both are the least
    that it can be where ``at_least`` says that some nights could not be read."""

    name: str
    since: str
    until: str
    nights: int
    nights_known: int
    cost_usd: float | None
    cost_per_merged_usd: float | None
    at_least: bool
    outcomes: dict[str, int]
    total: CategoryFigures
    categories: tuple[CategoryFigures, ...]
    weeks: tuple[WeekFigures, ...]
    history: NightHistory
    version: int = HISTORY_VERSION


def compute_figures(name: str, since: str, until: str, history: NightHistory) -> HistoryFigures:
    """The figures of a project or a group of this name, over these days."""
    requests, nights = history.merge_requests, history.nights
    names = sorted({each.category for each in requests})
    total = _count_category("all", requests)
    known = [each for each in nights if each.cost_usd is not None]
    cost = _add_costs(nights)
    return HistoryFigures(
        name=name,
        since=since,
        until=until,
        nights=len(nights),
        nights_known=len(known),
        cost_usd=cost,
        cost_per_merged_usd=cost / total.merged if cost and total.merged else None,
        at_least=len(known) < len(nights) or bool(history.unknown),
        outcomes=dict(Counter(each.outcome or "not known" for each in nights).most_common()),
        total=total,
        categories=tuple(
            _count_category(name, [each for each in requests if each.category == name])
            for name in names
        ),
        weeks=tuple(_count_weeks(nights)),
        history=history,
    )


def _count_category(name: str, requests: Sequence[PastMergeRequest]) -> CategoryFigures:
    states = Counter(each.state for each in requests)
    ended = states["merged"] + states["closed"]
    hours = [h for each in requests if (h := _measure_hours(each)) is not None]
    return CategoryFigures(
        category=name,
        opened=len(requests),
        merged=states["merged"],
        closed=states["closed"],
        waiting=len(requests) - ended,
        acceptance=states["merged"] / ended if ended else None,
        hours_to_merge=median(hours) if hours else None,
    )


def _measure_hours(request: PastMergeRequest) -> float | None:
    """From opened to merged; None for what is not merged, or where the clocks disagree."""
    start, end = _parse_moment(request.opened), _parse_moment(request.ended)
    if request.state != "merged" or start is None or end is None or end < start:
        return None
    return (end - start).total_seconds() / 3600


def _count_weeks(nights: Iterable[PastNight]) -> Iterable[WeekFigures]:
    """The weeks that had nights, the oldest first."""
    by_week: dict[str, list[PastNight]] = {}
    for each in nights:
        if moment := _parse_moment(each.started):
            by_week.setdefault(f"{moment:%G-W%V}", []).append(each)
    for week, its in sorted(by_week.items()):
        known = sum(each.cost_usd is not None for each in its)
        yield WeekFigures(week, len(its), known, _add_costs(its))


def _add_costs(nights: Iterable[PastNight]) -> float | None:
    """What is known; None where nothing is."""
    costs = [each.cost_usd for each in nights if each.cost_usd is not None]
    return sum(costs) if costs else None


def _parse_moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
