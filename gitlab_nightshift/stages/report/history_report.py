"""The history of many nights as a page and as OpenMetrics text.

The page is one file, with plots as inline SVG, no script and nothing to fetch. The metrics are for
GitLab's metrics reports and Prometheus, in this format:
https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from gitlab_nightshift.records.usage import format_usd
from gitlab_nightshift.stages.report.history_figures import HistoryFigures, RowFigures
from gitlab_nightshift.stages.report.page import build_environment, find_link
from gitlab_nightshift.text.printable_text import count_words

TEMPLATE = Path(__file__).with_name("history.html.j2")
UNKNOWN_USAGE = "not known"
MOST_REJECTED, MOST_ROWS = 50, 200
MOST_WEEKS = 26


def render_history(figures: HistoryFigures) -> str:
    """The page of a project or a group."""
    environment = build_environment()
    filters: dict[str, Callable[..., str]] = {
        "money": format_usd,
        "share": lambda part: UNKNOWN_USAGE if part is None else f"{part:.0%}",
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
        return UNKNOWN_USAGE
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
            "merge_requests_by", "By category, group or reviewer.", _list_groups(figures)
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


def _list_groups(figures: HistoryFigures) -> Iterator[Sample]:
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
