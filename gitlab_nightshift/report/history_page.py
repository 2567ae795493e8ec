"""The page over many nights: one file, plots as inline SVG, no script and nothing to fetch."""

from collections.abc import Callable
from pathlib import Path

from gitlab_nightshift.report.history_figures import HistoryFigures
from gitlab_nightshift.report.page import build_environment, find_link

TEMPLATE = Path(__file__).with_name("history.html.j2")
NOT_KNOWN = "not known"
MOST_REJECTED = 50
BAR_WIDTH, BAR_GAP, PLOT_HEIGHT = 26, 8, 120
"""Of the plot of weeks, in units of the SVG."""
MOST_WEEKS = 26


def render_history(figures: HistoryFigures) -> str:
    """The page of a project or a group."""
    environment = build_environment()
    filters: dict[str, Callable[..., str]] = {
        "money": lambda usd: NOT_KNOWN if usd is None else f"${usd:.2f}",
        "share": lambda part: NOT_KNOWN if part is None else f"{part:.0%}",
        "hours": _format_hours,
        "link": find_link,
    }
    environment.filters |= filters
    rejected = [each for each in figures.history.merge_requests if each.state == "closed"]
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        figures=figures,
        rejected=rejected[:MOST_REJECTED],
        bars=_build_bars(figures),
        plot_height=PLOT_HEIGHT,
    )


def _format_hours(hours: float | None) -> str:
    if hours is None:
        return NOT_KNOWN
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"


def _build_bars(figures: HistoryFigures) -> list[dict[str, object]]:
    """A bar for each of the last weeks: where it is, how high, and what it says."""
    weeks = figures.weeks[-MOST_WEEKS:]
    most = max((week.cost_usd or 0.0 for week in weeks), default=0.0) or 1.0
    bars = []
    for number, week in enumerate(weeks):
        height = round(PLOT_HEIGHT * (week.cost_usd or 0.0) / most, 1)
        bars.append(
            {
                "x": number * (BAR_WIDTH + BAR_GAP),
                "y": PLOT_HEIGHT - height,
                "width": BAR_WIDTH,
                "height": height,
                "week": week,
            }
        )
    return bars
