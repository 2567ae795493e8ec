"""The values of the prompts' placeholders, from the plan, the settings and the night so far."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.records import AnalysisCandidate, AnalysisResult, Plan
from gitlab_nightshift.settings import Job, Settings

LONGEST_LIST = 200


def run_values(
    plan: Plan, settings: Settings, job: Job, allowed: Iterable[str], build: Iterable[str]
) -> dict[str, str]:
    """The values that are the same in all beads of a run, the team's own among them."""
    reviewers = [*([settings.reviewer] if settings.reviewer else []), *settings.reviewers]
    values = {
        "date": plan.date,
        "repo_url": settings.repo_url or job.project_url,
        "project_path": job.project_path,
        "default_branch": plan.target_branch,
        "base_sha": plan.base_sha,
        "allowed_commands": listed(allowed),
        "build_commands": listed(build),
        "verify_commands": listed(plan.verify_commands),
        "recent_files": listed(plan.recent_files),
        "open_merge_requests": listed(
            f"{mr.title} (!{mr.iid}, branch {mr.source_branch})" for mr in plan.open_merge_requests
        ),
        "rejected_ideas": listed(plan.rejected_ideas),
        "max_diff_lines": str(plan.max_diff_lines),
        "reviewer": ", ".join(reviewers),
    }
    own = {name: value.strip() for name, value in settings.variables.items()}
    return {**own, **{name: value.strip() for name, value in values.items()}}


def bead_values(
    run: Mapping[str, str],
    settings: Settings,
    category: str,
    *,
    left_s: float | None,
    analysis: AnalysisResult | None = None,
    verify_error: str = "",
    context: str = "",
) -> dict[str, str]:
    """The values of one bead: every placeholder but the hand-off's places has one.

    ``context`` is quoted text that a given task is about.
    """
    selected = analysis.selected if analysis else None
    return {
        **run,
        "category": category,
        "category_guidance": _guidance(settings, category),
        "deadline": deadline(left_s, datetime.now(UTC)),
        "verify_error": verify_error.strip(),
        "short_description": _described(selected, context) if selected else "",
    }


def _described(selected: AnalysisCandidate, context: str) -> str:
    return "\n\n".join(part for part in (selected.description.strip(), context) if part)


def deadline(left_s: float | None, now: datetime) -> str:
    """An absolute time and the minutes left; without a deadline, that."""
    if left_s is None:
        return "none"
    end = (now + timedelta(seconds=left_s)).isoformat(timespec="minutes")
    return f"{end} ({left_s / 60:.0f} minutes left)"


def listed(rows: Iterable[str]) -> str:
    """A Markdown list of one-line entries, bounded."""
    lines = [f"- {' '.join(row.split())}" for row in rows]
    rest = len(lines) - LONGEST_LIST
    return "\n".join([*lines[:LONGEST_LIST], *([f"- … and {rest} more"] if rest > 0 else [])])


def _guidance(settings: Settings, category: str) -> str:
    parts = [settings.guidance[category].strip()]
    if settings.paths:
        parts.append(f"Look and change only here: {', '.join(settings.paths)}.")
    if settings.exclude_paths:
        parts.append(f"Leave these paths alone: {', '.join(settings.exclude_paths)}.")
    return " ".join(parts)
