"""A night as a line in Confluence's storage format, which is XHTML. Pure functions."""

import html

from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.usage import format_cost
from gitlab_nightshift.stages.report.job_log import format_line
from gitlab_nightshift.stages.report.result_texts import format_duration

LONGEST_TEXT = 300


def render_line(result: RunResult, today: str) -> str:
    """A paragraph: day, outcome, category, title or reason, cost and duration, with links. What an
    agent wrote in it is text."""
    day = _link(result.started_at[:10] or today, result.pipeline_url)
    opened = result.outcome is Outcome.MR_CREATED
    text = _link(result.title if opened else result.reason, result.mr_url)
    category = "" if result.category_used == "none" else _escape(result.category_used)
    spent = f"{format_cost(result.usage)}, {format_duration(result.total_duration_s)}"
    parts = (f"{day} {result.outcome.value}", category, text, _escape(spent))
    return f"<p>{' · '.join(filter(None, parts))}</p>"


def _link(text: str, url: str) -> str:
    safe = url.startswith(("https://", "http://"))
    shown = _escape(text)
    return f'<a href="{_escape(url)}">{shown}</a>' if safe and shown else shown


def _escape(text: str) -> str:
    return html.escape(format_line(text, LONGEST_TEXT))
