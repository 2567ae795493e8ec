"""The page over many nights: one file, plots as inline SVG, no script and nothing to fetch."""

from collections.abc import Callable
from pathlib import Path

from gitlab_nightshift.records.usage import format_usd
from gitlab_nightshift.stages.report.history_figures import HistoryFigures
from gitlab_nightshift.stages.report.page import build_environment, find_link
from gitlab_nightshift.text.printable_text import count_words

TEMPLATE = Path(__file__).with_name("history.html.j2")
NOT_KNOWN = "not known"
MOST_REJECTED, MOST_ROWS = 50, 200
MOST_WEEKS = 26


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
    """The last weeks, each with its part of the dearest one in percent."""
    weeks = figures.weeks[-MOST_WEEKS:]
    most = max((week.cost_usd or 0.0 for week in weeks), default=0.0) or 1.0
    return [
        {"week": week, "percent": round(100 * (week.cost_usd or 0.0) / most, 1)} for week in weeks
    ]
