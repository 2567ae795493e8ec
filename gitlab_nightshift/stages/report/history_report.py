"""The history of many nights: its figures, as a page, and as OpenMetrics text.

The page is one file, with plots as inline SVG, no script and nothing to fetch. The metrics are for
GitLab's metrics reports and Prometheus, in this format:
https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from gitlab_nightshift.records.history_records import (
    IGNORED_AFTER,
    NightHistory,
    PastMergeRequest,
    PastNight,
)
from gitlab_nightshift.records.usage import Bound, format_usd
from gitlab_nightshift.stages.report.page import build_environment, find_link
from gitlab_nightshift.text.lazy_patterns import compile_lazily

HISTORY_VERSION = 2
LONGEST_FAILURE, MOST_URLS = 200, 5
"""Characters of a failure's reason, and nights that are linked for it."""
NOBODY = "nobody"
_VARIABLE_PARTS = compile_lazily(r"\b[0-9a-f]{7,64}\b|\d+|(?<=[ '\"(])(?:/[\w.@+-]+){2,}")
"""What may differ between nights that fail for the same reason: ids, numbers, paths."""


@dataclass(frozen=True)
class RowFigures:
    """Merge requests and nights of a category, a group or a reviewer, called ``name``.

    ``waiting`` are open, ``ignored`` have been open for two weeks. ``acceptance`` is the merged
    share of merged and closed ones (None if there are none), ``hours_to_merge`` the median (None if
    none was merged). ``cost_usd`` is the known cost of the nights, ``cost_per_merged_usd`` that
    divided by the number of merged ones; None if unknown. A reviewer has no nights.
    """

    name: str
    opened: int
    merged: int
    closed: int
    waiting: int
    ignored: int
    acceptance: float | None
    hours_to_merge: float | None
    nights: int = 0
    cost_usd: float | None = None
    cost_per_merged_usd: float | None = None


@dataclass(frozen=True)
class FailureFigures:
    """How many nights of how many projects failed for the same ``reason``; ``places`` are the URLs
    of some of them."""

    reason: str
    nights: int
    projects: int
    places: tuple[str, ...]


@dataclass(frozen=True)
class WeekFigures:
    """An ISO 8601 week, such as ``2026-W47``: its nights, those with a known cost, the sum."""

    week: str
    nights: int
    known: int
    cost_usd: float | None


@dataclass(frozen=True)
class HistoryFigures:
    """A history in figures. ``cost_usd`` is the cost of the ``nights_known`` nights with a known
    cost, ``cost_per_merged_usd`` that divided by the number of merged requests (None if no cost is
    known or nothing was merged). ``at_least``: some nights' costs are unknown, so ``cost_usd`` is a
    lower bound. ``silent`` are projects that should have had a night and had none."""

    name: str
    since: str
    until: str
    nights: int
    nights_known: int
    cost_usd: float | None
    cost_per_merged_usd: float | None
    at_least: bool
    outcomes: dict[str, int]
    total: RowFigures
    categories: tuple[RowFigures, ...]
    groups: tuple[RowFigures, ...]
    reviewers: tuple[RowFigures, ...]
    failures: tuple[FailureFigures, ...]
    weeks: tuple[WeekFigures, ...]
    history: NightHistory
    silent: tuple[str, ...] = ()
    version: int = HISTORY_VERSION

    @property
    def bound(self) -> Bound:
        """The words to print before the costs."""
        return "at least" if self.at_least else ""


def compute_figures(
    name: str, since: str, until: str, history: NightHistory, silent: Iterable[str] = ()
) -> HistoryFigures:
    """The figures of a project, a group or a fleet called ``name``, between two days (ISO 8601)."""
    requests, nights = history.merge_requests, history.nights
    known = [night for night in nights if night.cost_usd is not None]
    total = _build_row("all", requests, nights, until)
    by_reviewer = [(name, each) for each in requests for name in each.reviewers or (NOBODY,)]
    reviewers = _build_rows(by_reviewer, (), until)
    return HistoryFigures(
        name=name,
        since=since,
        until=until,
        nights=len(nights),
        nights_known=len(known),
        cost_usd=total.cost_usd,
        cost_per_merged_usd=total.cost_per_merged_usd,
        at_least=len(known) < len(nights) or bool(history.unknown),
        outcomes=dict(Counter(each.outcome or "not known" for each in nights).most_common()),
        total=total,
        categories=_build_rows(
            ((each.category, each) for each in requests),
            ((_find_category(each), each) for each in nights),
            until,
        ),
        groups=_build_rows(
            ((_find_group(each.project), each) for each in requests),
            ((_find_group(each.project), each) for each in nights),
            until,
        ),
        reviewers=tuple(sorted(reviewers, key=lambda row: -row.waiting)),
        failures=_group_failures(nights),
        weeks=tuple(_count_weeks(nights)),
        history=history,
        silent=tuple(silent),
    )


def _build_rows(
    requests: Iterable[tuple[str, PastMergeRequest]],
    nights: Iterable[tuple[str, PastNight]],
    until: str,
) -> tuple[RowFigures, ...]:
    """A row for each name, sorted by name. Requests and nights come with their row's name."""
    named_requests: defaultdict[str, list[PastMergeRequest]] = defaultdict(list)
    for name, request in requests:
        named_requests[name].append(request)
    named_nights: defaultdict[str, list[PastNight]] = defaultdict(list)
    for name, night in nights:
        named_nights[name].append(night)
    names = sorted({*named_requests, *named_nights} - {""})
    return tuple(
        _build_row(name, named_requests[name], named_nights[name], until) for name in names
    )


def _build_row(
    name: str, requests: Sequence[PastMergeRequest], nights: Sequence[PastNight], until: str
) -> RowFigures:
    states = Counter(request.state for request in requests)
    cost, merged = _add_costs(nights), states["merged"]
    ended = merged + states["closed"]
    hours = [hours for hours in map(_measure_hours, requests) if hours is not None]
    return RowFigures(
        name=name,
        opened=len(requests),
        merged=merged,
        closed=states["closed"],
        waiting=len(requests) - ended,
        ignored=len([request for request in requests if _is_ignored(request, until)]),
        acceptance=merged / ended if ended else None,
        hours_to_merge=median(hours) if hours else None,
        nights=len(nights),
        cost_usd=cost,
        cost_per_merged_usd=cost / merged if cost is not None and merged else None,
    )


def _is_ignored(request: PastMergeRequest, until: str) -> bool:
    opened, day = _parse_time(request.opened), _parse_time(f"{until}T00:00:00+00:00")
    is_open = request.state not in ("merged", "closed")
    return bool(is_open and opened and day and day - opened >= IGNORED_AFTER)


def _find_group(project: str) -> str:
    return project.rpartition("/")[0]


def _find_category(night: PastNight) -> str:
    """``docs`` for ``docs (fallback from bugfix)``; "" for ``none``."""
    category = night.category.partition(" (")[0]
    return "" if category == "none" else category


def _group_failures(nights: Iterable[PastNight]) -> tuple[FailureFigures, ...]:
    """Reasons that differ only in ids, numbers and paths count as one; the most frequent first."""
    by_reason: defaultdict[str, list[PastNight]] = defaultdict(list)
    for night in nights:
        if night.failure:
            reason = " ".join(_VARIABLE_PARTS.sub("…", night.failure).split())[:LONGEST_FAILURE]
            by_reason[reason].append(night)
    failures = [_build_failure(reason, group) for reason, group in by_reason.items()]
    return tuple(sorted(failures, key=lambda failure: (-failure.nights, failure.reason)))


def _build_failure(reason: str, nights: Sequence[PastNight]) -> FailureFigures:
    # The nights come newest first; reversed, each project keeps the newest URL.
    urls = {night.project: night.web_url for night in reversed(nights)}
    return FailureFigures(reason, len(nights), len(urls), tuple(urls.values())[:MOST_URLS])


def _measure_hours(request: PastMergeRequest) -> float | None:
    """Hours from opening to merge; None if it is not merged, or if its times are invalid."""
    start, end = _parse_time(request.opened), _parse_time(request.ended)
    if request.state != "merged" or start is None or end is None or end < start:
        return None
    return (end - start).total_seconds() / 3600


def _count_weeks(nights: Iterable[PastNight]) -> Iterable[WeekFigures]:
    """The weeks with nights, oldest first."""
    by_week: defaultdict[str, list[PastNight]] = defaultdict(list)
    for night in nights:
        if started := _parse_time(night.started):
            by_week[f"{started:%G-W%V}"].append(night)
    for week, group in sorted(by_week.items()):
        known = [night for night in group if night.cost_usd is not None]
        yield WeekFigures(week, len(group), len(known), _add_costs(group))


def _add_costs(nights: Iterable[PastNight]) -> float | None:
    """The sum of the known costs; None if none is known."""
    costs = [each.cost_usd for each in nights if each.cost_usd is not None]
    return sum(costs) if costs else None


def _parse_time(text: str) -> datetime | None:
    """A time with a time zone; None for anything else."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None


# --- the page -------------------------------------------------------------------------------------


TEMPLATE = Path(__file__).with_name("history.html.j2")
NOT_KNOWN = "not known"
MOST_REJECTED, MOST_ROWS, MOST_WEEKS = 50, 200, 26
"""Limits of the page: rejected ideas, rows of a table, weeks of the plot."""


def render_history(figures: HistoryFigures) -> str:
    """The page of a project or a group."""
    environment = build_environment()
    filters: dict[str, Callable[..., str]] = {
        "money": format_usd,
        "share": lambda share: NOT_KNOWN if share is None else f"{share:.0%}",
        "hours": _format_hours,
        "link": find_link,
    }
    environment.filters |= filters
    rejected = [each for each in figures.history.merge_requests if each.state == "closed"]
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        figures=figures,
        rejected=rejected[:MOST_REJECTED],
        most=MOST_ROWS,
        bars=_build_bars(figures),
    )


def _format_hours(hours: float | None) -> str:
    if hours is None:
        return NOT_KNOWN
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"


def _build_bars(figures: HistoryFigures) -> list[dict[str, object]]:
    """The last weeks, each with its cost in percent of the most expensive one."""
    weeks = figures.weeks[-MOST_WEEKS:]
    highest = max((week.cost_usd or 0.0 for week in weeks), default=0.0) or 1.0
    return [
        {"week": week, "percent": round(100 * (week.cost_usd or 0.0) / highest, 1)}
        for week in weeks
    ]


# --- OpenMetrics --------------------------------------------------------------------------------


Sample = tuple[Mapping[str, str], float | None]
PREFIX = "nightshift"
STATES = ("merged", "closed", "waiting", "ignored")
"""States of a merge request: an open one is waiting, and after two weeks also ignored."""


def render_metrics(figures: HistoryFigures) -> str:
    """The OpenMetrics text. An unknown value has no sample."""
    total = figures.total
    lines = [
        *_format_gauge("merge_requests", "Of nights, by state.", _list_states({}, total)),
        *_format_gauge(
            "merge_requests_by", "By category, group or reviewer.", _list_states_by_name(figures)
        ),
        *_format_gauge(
            "nights",
            "By outcome.",
            (({"outcome": name}, count) for name, count in figures.outcomes.items()),
        ),
        *_format_gauge(
            "failed_nights",
            "By reason, without what differs.",
            (({"reason": each.reason}, each.nights) for each in figures.failures),
        ),
        *_format_gauge("cost", "Known cost.", _list_costs(figures, "cost_usd"), "usd"),
        *_format_gauge(
            "cost_per_merged",
            "Known cost for each merged merge request.",
            _list_costs(figures, "cost_per_merged_usd"),
            "usd",
        ),
        *_format_gauge(
            "silent_projects", "Set up, and without a night.", [({}, len(figures.silent))]
        ),
        *_format_gauge("known_nights", "With a known cost.", [({}, figures.nights_known)]),
        "# EOF",  # without it, readers take the text as truncated
    ]
    return "\n".join(lines) + "\n"


def _list_states_by_name(figures: HistoryFigures) -> Iterator[Sample]:
    for kind, rows in (
        ("category", figures.categories),
        ("group", figures.groups),
        ("reviewer", figures.reviewers),
    ):
        for each in rows:
            yield from _list_states({kind: each.name}, each)


def _list_states(labels: Mapping[str, str], row: RowFigures) -> Iterator[Sample]:
    yield from (({**labels, "state": state}, getattr(row, state)) for state in STATES)


def _list_costs(figures: HistoryFigures, name: str) -> Iterator[Sample]:
    yield {}, getattr(figures.total, name)
    yield from (({"group": each.name}, getattr(each, name)) for each in figures.groups)


def _format_gauge(
    name: str, help_text: str, samples: Iterable[Sample], unit: str = ""
) -> Iterator[str]:
    # A unit must be the suffix of the family's name, and its line must follow (OpenMetrics, Unit).
    family = "_".join(filter(None, (PREFIX, name, unit)))
    yield f"# TYPE {family} gauge"
    if unit:
        yield f"# UNIT {family} {unit}"
    yield f"# HELP {family} {help_text}"
    for labels, value in samples:
        if value is not None:
            pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
            yield f"{family}{{{pairs}}} {value}" if pairs else f"{family} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
