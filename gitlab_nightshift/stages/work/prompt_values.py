"""The values of the prompts' placeholders, from the plan, the settings and the night so far."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.policy.prompts import render
from gitlab_nightshift.records.handoffs import AnalysisCandidate, AnalysisResult
from gitlab_nightshift.records.products import KnownMergeRequest, Plan
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import ALL
from gitlab_nightshift.stages.work.evidence_text import quote_data
from gitlab_nightshift.stages.work.step_input import FIRST_STEP, StepInput

LONGEST_LIST = 200
MOST_FILES = 5
LONGEST_ERROR = 8_000


def build_run_values(
    plan: Plan, settings: Settings, job: JobFacts, allowed: Iterable[str], build: Iterable[str]
) -> dict[str, str]:
    """The values that all beads of a run share, including the team's own."""
    values = {
        "date": plan.date,
        "repo_url": settings.repo_url or job.project_url,
        "project_path": job.project_path,
        "default_branch": plan.target_branch,
        "base_sha": plan.base_sha,
        "allowed_commands": format_list(allowed),
        "build_commands": format_list(build),
        "verify_commands": format_list(plan.verify_commands),
        "recent_files": format_list(plan.recent_files),
        "open_merge_requests": format_list(
            map(describe_open, (*plan.open_merge_requests, *plan.open_elsewhere))
        ),
        "rejected_ideas": format_list(map(describe_rejected, plan.rejected_ideas)),
        "max_diff_lines": str(plan.max_diff_lines),
        "reviewer": ", ".join(settings.named_reviewers),
    }
    own = {name: value.strip() for name, value in settings.variables.items()}
    return {**own, **{name: value.strip() for name, value in values.items()}}


def describe_open(known: KnownMergeRequest) -> str:
    """An open merge request, for a list in a prompt."""
    files = f", changes {_list_files(known)}" if known.files else ""
    return f"{known.title} (!{known.iid}, branch {known.source_branch}{files})"


def describe_rejected(known: KnownMergeRequest) -> str:
    """A rejected idea, for a list in a prompt: people's and agents' words, which the preamble calls
    data."""
    why = "; ".join(known.reasons) or "no reason given"
    files = f"; files: {_list_files(known)}" if known.files else ""
    return f"{known.title} (!{known.iid}, closed on {known.day}): {why}{files}"


def _list_files(known: KnownMergeRequest) -> str:
    rest = len(known.files) - MOST_FILES
    return ", ".join(known.files[:MOST_FILES]) + (f" and {rest} more" if rest > 0 else "")


def build_bead_values(
    run: Mapping[str, str],
    settings: Settings,
    category: str,
    *,
    left_s: float | None,
    analysis: AnalysisResult | None = None,
    step_input: StepInput = FIRST_STEP,
    context: str = "",
) -> dict[str, str]:
    """The values of all placeholders of one bead, except the files of the hand-off.

    ``context`` is quoted text that a given task is about.
    """
    selected = analysis.selected if analysis else None
    return {
        **run,
        "category": category,
        "category_guidance": _format_guidance(settings, category),
        "deadline": format_deadline(left_s, datetime.now(UTC)),
        "verify_error": quote_data(step_input.error, LONGEST_ERROR),
        "evidence": step_input.evidence,
        "short_description": _describe_selected(selected, context) if selected else "",
    }


def _describe_selected(selected: AnalysisCandidate, context: str) -> str:
    return "\n\n".join(part for part in (selected.description.strip(), context) if part)


def format_deadline(left_s: float | None, now: datetime) -> str:
    """The absolute time and the minutes left, or "none"."""
    if left_s is None:
        return "none"
    end = (now + timedelta(seconds=left_s)).isoformat(timespec="minutes")
    return f"{end} ({left_s / 60:.0f} minutes left)"


def format_list(rows: Iterable[str]) -> str:
    """A Markdown list of one-line entries, bounded."""
    lines = [f"- {' '.join(row.split())}" for row in rows]
    rest = len(lines) - LONGEST_LIST
    return "\n".join([*lines[:LONGEST_LIST], *([f"- … and {rest} more"] if rest > 0 else [])])


def _format_guidance(settings: Settings, category: str) -> str:
    parts = [settings.guidance[category].strip()]
    if settings.paths:
        parts.append(f"Look and change only here: {', '.join(settings.paths)}.")
    if settings.exclude_paths:
        parts.append(f"Leave these paths alone: {', '.join(settings.exclude_paths)}.")
    texts = [settings.instructions.get(name, "") for name in (ALL, category)]
    own = [render(text, settings.variables).strip() for text in texts if text]
    return "\n\n".join([" ".join(parts), *(f"The team adds: {text}" for text in own)])
