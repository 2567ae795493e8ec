"""The plan stage: records from settings, job, checkout and GitLab to a :class:`Plan`."""

from datetime import UTC, datetime

from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.plan.facts import CheckoutFacts
from gitlab_nightshift.plan.schedule import (
    day_of_run,
    in_order,
    left_out,
    reason_to_skip,
    resolve_category,
)
from gitlab_nightshift.records import OpenMergeRequest, Plan
from gitlab_nightshift.settings import Job, Settings


def make_plan(
    settings: Settings,
    job: Job,
    facts: CheckoutFacts,
    project: Project | None,
    verify_commands: tuple[str, ...],
) -> Plan:
    """Decide what the night tries, and within which limits. Without a project (no token) it says
    what it could not know. ``verify_commands`` are what a change will be proven by.

    Raises :class:`NightshiftError` where GitLab refuses the token.
    """
    day = day_of_run(job.pipeline_created_at, settings.timezone, datetime.now(UTC))
    scheduled = resolve_category(settings, day)
    categories = in_order(scheduled)
    open_ones, unknown = _open_merge_requests(settings, project)
    public = (job.visibility or _visibility(project)) == "public"
    out = left_out(categories, settings, public=public, open_merge_requests=open_ones)
    left_out_names = {row.category for row in out}
    return Plan(
        run_id=job.run_id,
        date=f"{day:%A} {day}",
        base_sha=facts.base_sha,
        target_branch=facts.target_branch,
        scheduled=scheduled,
        task=settings.task or "",
        categories=tuple(name for name in categories if name not in left_out_names),
        left_out=out,
        skip=reason_to_skip(settings, day, categories, out, len(open_ones)),
        open_merge_requests=open_ones,
        recent_files=facts.recent_files,
        recent_files_enforced=facts.recent_enforced,
        notes=_notes(settings, facts),
        unknown=unknown,
        verify_commands=verify_commands,
        max_diff_lines=settings.max_diff_lines,
        max_budget_usd=settings.max_budget_usd,
        max_tokens=settings.max_tokens,
    )


def _open_merge_requests(
    settings: Settings, project: Project | None
) -> tuple[tuple[OpenMergeRequest, ...], tuple[str, ...]]:
    if project is None:
        return (), ("open merge requests: there is no GITLAB_TOKEN",)
    return project.open_merge_requests(settings.branch_prefix), ()


def _visibility(project: Project | None) -> str:
    return project.visibility() if project else ""


def _notes(settings: Settings, facts: CheckoutFacts) -> tuple[str, ...]:
    notes: list[str] = []
    if not facts.recent_enforced:
        notes.append(
            f"The last {settings.avoid_recent_commits} commits touched more than half of the "
            "files: these are told to Analyze, but not refused."
        )
    if facts.shallow:
        notes.append("The history is shallow (GIT_DEPTH): older commits are not known.")
    notes += (f"{key} is set, but not in force yet in this version" for key in settings.waiting)
    return tuple(notes)
