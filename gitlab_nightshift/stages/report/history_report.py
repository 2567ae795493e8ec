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
from gitlab_nightshift.text.printable_text import count_words

HISTORY_VERSION = 2
LONGEST_FAILURE, MOST_URLS = 200, 5
"""Characters of a reason, and nights that are linked for it."""
NOBODY = "nobody"
_VARYING = compile_lazily(r"\b[0-9a-f]{7,64}\b|\d+|(?<=[ '\"(])(?:/[\w.@+-]+){2,}")
"""What differs between nights that fail in the same way: ids, numbers, paths."""


@dataclass(frozen=True)
class RowFigures:
    """Merge requests and nights of a category, a group or a reviewer, called ``name``.

    ``waiting`` are open, ``ignored`` have been open for two weeks. ``acceptance`` is the merged
    share of those that have ended (None if none has), ``hours_to_merge`` the median (None if none
    was merged).
    ``cost_usd`` is the known cost of the nights, ``cost_per_merged_usd`` that divided by the merged
    ones; None if unknown. A reviewer has no nights.
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
    """An ISO 8601 week, such as ``2026-W47``: its nights, how many have a known cost, the sum."""

    week: str
    nights: int
    known: int
    cost_usd: float | None


@dataclass(frozen=True)
class HistoryFigures:
    """A history in figures. ``cost_usd`` is the cost of the ``nights_known`` nights whose cost is
    known, ``cost_per_merged_usd`` that divided by the merged requests (None if nothing is known, or
    merged). ``at_least``: some nights' costs are unknown, so ``cost_usd`` is a lower bound.
    ``silent`` are projects that should have had a night and had none."""

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
    """The figures of a project, a group or a fleet of this name, from one day until another."""
    requests, nights = history.merge_requests, history.nights
    known = [each for each in nights if each.cost_usd is not None]
    total = _build_row("all", requests, nights, until)
    people = [(person, each) for each in requests for person in each.reviewers or (NOBODY,)]
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
        reviewers=tuple(sorted(_build_rows(people, (), until), key=lambda each: -each.waiting)),
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
    """A row for each name, sorted."""
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
    states = Counter(each.state for each in requests)
    ended = states["merged"] + states["closed"]
    hours = [h for each in requests if (h := _measure_hours(each)) is not None]
    cost, merged = _add_costs(nights), states["merged"]
    return RowFigures(
        name=name,
        opened=len(requests),
        merged=merged,
        closed=states["closed"],
        waiting=len(requests) - ended,
        ignored=sum(_is_ignored(each, until) for each in requests),
        acceptance=merged / ended if ended else None,
        hours_to_merge=median(hours) if hours else None,
        nights=len(nights),
        cost_usd=cost,
        cost_per_merged_usd=cost / merged if cost is not None and merged else None,
    )


def _is_ignored(request: PastMergeRequest, until: str) -> bool:
    opened, day = _parse_moment(request.opened), _parse_moment(f"{until}T00:00:00+00:00")
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
    for each in nights:
        if each.failure:
            reason = " ".join(_VARYING.sub("…", each.failure).split())[:LONGEST_FAILURE]
            by_reason[reason].append(each)
    rows = [_build_failure(reason, group) for reason, group in by_reason.items()]
    return tuple(sorted(rows, key=lambda each: (-each.nights, each.reason)))


def _build_failure(reason: str, nights: Sequence[PastNight]) -> FailureFigures:
    # The nights come newest first, so of each project the newest URL stays.
    urls = {each.project: each.web_url for each in reversed(nights)}
    return FailureFigures(reason, len(nights), len(urls), tuple(urls.values())[:MOST_URLS])


def _measure_hours(request: PastMergeRequest) -> float | None:
    """From opening to merge; None if it is not merged, or if it was before it was opened."""
    start, end = _parse_moment(request.opened), _parse_moment(request.ended)
    if request.state != "merged" or start is None or end is None or end < start:
        return None
    return (end - start).total_seconds() / 3600


def _count_weeks(nights: Iterable[PastNight]) -> Iterable[WeekFigures]:
    """The weeks with nights, oldest first."""
    by_week: defaultdict[str, list[PastNight]] = defaultdict(list)
    for each in nights:
        if moment := _parse_moment(each.started):
            by_week[f"{moment:%G-W%V}"].append(each)
    for week, group in sorted(by_week.items()):
        known = sum(each.cost_usd is not None for each in group)
        yield WeekFigures(week, len(group), known, _add_costs(group))


def _add_costs(nights: Iterable[PastNight]) -> float | None:
    """The sum of the known costs; None if none is known."""
    costs = [each.cost_usd for each in nights if each.cost_usd is not None]
    return sum(costs) if costs else None


def _parse_moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


# --- the page -------------------------------------------------------------------------------------


TEMPLATE = Path(__file__).with_name("history.html.j2")
NOT_KNOWN = "not known"
MOST_REJECTED, MOST_ROWS = 50, 200
MOST_WEEKS = 26
"""Limits of the page: rejected ideas, rows of a table, weeks of the plot."""


def render_history(figures: HistoryFigures) -> str:
    """The page of a project or a group."""
    environment = build_environment()
    filters: dict[str, Callable[..., str]] = {
        "money": format_usd,
        "share": lambda part: NOT_KNOWN if part is None else f"{part:.0%}",
        "hours": _format_hours,
        "link": find_link,
        "count": count_words,
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
    most = max((week.cost_usd or 0.0 for week in weeks), default=0.0) or 1.0
    return [
        {"week": week, "percent": round(100 * (week.cost_usd or 0.0) / most, 1)} for week in weeks
    ]


# --- OpenMetrics --------------------------------------------------------------------------------


Sample = tuple[Mapping[str, str], float | None]
PREFIX = "nightshift"
STATES = ("merged", "closed", "waiting", "ignored")
"""Open ones are waiting; after two weeks they are ignored, too."""


def render_metrics(figures: HistoryFigures) -> str:
    """The whole text. What is unknown has no sample."""
    total = figures.total
    lines = [
        *_format_gauges("merge_requests", "Of nights, by state.", _list_states({}, total)),
        *_format_gauges(
            "merge_requests_by", "By category, group or reviewer.", _list_states_by_name(figures)
        ),
        *_format_gauges(
            "nights",
            "By outcome.",
            (({"outcome": name}, count) for name, count in figures.outcomes.items()),
        ),
        *_format_gauges(
            "failed_nights",
            "By reason, without what differs.",
            (({"reason": each.reason}, each.nights) for each in figures.failures),
        ),
        *_format_gauges("cost", "Known cost.", _list_costs(figures, "cost_usd"), "usd"),
        *_format_gauges(
            "cost_per_merged",
            "Known cost for each merged merge request.",
            _list_costs(figures, "cost_per_merged_usd"),
            "usd",
        ),
        *_format_gauges(
            "silent_projects", "Set up, and without a night.", [({}, len(figures.silent))]
        ),
        *_format_gauges("known_nights", "With a known cost.", [({}, figures.nights_known)]),
        "# EOF",  # without it a reader takes the text for cut off
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


def _format_gauges(
    name: str, help_text: str, samples: Iterable[Sample], unit: str = ""
) -> Iterator[str]:
    """A family of gauges."""
    # A unit must be the suffix of the family's name, and its line must follow (OpenMetrics, Unit).
    whole = "_".join(filter(None, (PREFIX, name, unit)))
    yield f"# TYPE {whole} gauge"
    if unit:
        yield f"# UNIT {whole} {unit}"
    yield f"# HELP {whole} {help_text}"
    for labels, value in samples:
        if value is not None:
            pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
            yield f"{whole}{{{pairs}}} {value}" if pairs else f"{whole} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
