"""Figures over many nights as OpenMetrics text, for GitLab's metrics reports and Prometheus.

The format: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from collections.abc import Iterable, Iterator, Mapping

from gitlab_nightshift.stages.report.history_figures import HistoryFigures, RowFigures

Sample = tuple[Mapping[str, str], float | None]
PREFIX = "nightshift"
STATES = ("merged", "closed", "waiting", "ignored")
"""Open ones are waiting, and those of two weeks ignored as well."""


def render_metrics(figures: HistoryFigures) -> str:
    """The whole text. What is not known has no sample."""
    total = figures.total
    lines = [
        *_write("merge_requests", "Of nights, by state.", _list_states({}, total)),
        *_write("merge_requests_by", "By category, group or reviewer.", _list_parts(figures)),
        *_write(
            "nights",
            "By outcome.",
            (({"outcome": name}, count) for name, count in figures.outcomes.items()),
        ),
        *_write(
            "failed_nights",
            "By reason, without what differs.",
            (({"reason": each.reason}, each.nights) for each in figures.failures),
        ),
        *_write("cost", "Known cost.", _list_costs(figures, "cost_usd"), "usd"),
        *_write(
            "cost_per_merged",
            "Known cost for each merged merge request.",
            _list_costs(figures, "cost_per_merged_usd"),
            "usd",
        ),
        *_write("silent_projects", "Set up, and without a night.", [({}, len(figures.silent))]),
        *_write("known_nights", "With a known cost.", [({}, figures.nights_known)]),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def _list_parts(figures: HistoryFigures) -> Iterator[Sample]:
    for kind, shares in (
        ("category", figures.categories),
        ("group", figures.groups),
        ("reviewer", figures.reviewers),
    ):
        for each in shares:
            yield from _list_states({kind: each.name}, each)


def _list_states(labels: Mapping[str, str], share: RowFigures) -> Iterator[Sample]:
    yield from (({**labels, "state": state}, getattr(share, state)) for state in STATES)


def _list_costs(figures: HistoryFigures, name: str) -> Iterator[Sample]:
    yield {}, getattr(figures.total, name)
    yield from (({"group": each.name}, getattr(each, name)) for each in figures.groups)


def _write(name: str, help_text: str, samples: Iterable[Sample], unit: str = "") -> Iterator[str]:
    """A family of gauges; a name ends with its unit."""
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
