"""The plan stage: records from settings, job, checkout and GitLab to a :class:`Plan`."""

from dataclasses import replace
from datetime import UTC, datetime

from gitlab_nightshift.gitlab.history import Memory
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.resources import NIGHT_LABEL
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.plan.checkout_facts import CheckoutFacts
from gitlab_nightshift.stages.plan.schedule import (
    find_left_out,
    find_pausing,
    find_skip_reason,
    order_categories,
    resolve_category,
    resolve_run_day,
)

MOST_TOLD = 1_000
"""Recent files that Analyze is only told of: of half a million, a prompt shows some hundred."""


def make_plan(
    settings: Settings,
    job: JobFacts,
    facts: CheckoutFacts,
    project: Project | None,
    memory: Memory,
    verify_commands: tuple[str, ...],
) -> Plan:
    """Decide what the night tries, and within which limits. Without a project (no token) the plan
    lists what is unknown. ``verify_commands`` will prove a change.

    Raises :class:`NightshiftError` if GitLab refuses the token.
    """
    day = resolve_run_day(job.pipeline_created_at, settings.timezone, datetime.now(UTC))
    scheduled = resolve_category(settings, day)
    categories = order_categories(scheduled)
    public = (job.visibility or (project.facts.visibility if project else "")) == "public"
    out = find_left_out(categories, settings, public=public, memory=memory, day=day)
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
        skip=find_skip_reason(settings, day, categories, out, memory),
        pausing=tuple(each.iid for each in find_pausing(settings, memory, day)),
        open_merge_requests=memory.opened,
        rejected_ideas=memory.rejected,
        merged_ideas=memory.merged,
        open_elsewhere=memory.others,
        notes=_describe_memory(memory),
        unknown=memory.unknown,
        verify_commands=verify_commands,
        max_diff_lines=settings.max_diff_lines,
        max_budget_usd=settings.max_budget_usd,
        max_tokens=settings.max_tokens,
    )


def add_findings(
    plan: Plan, settings: Settings, facts: CheckoutFacts, notes: tuple[str, ...]
) -> Plan:
    """The plan with recent files, as far as the history is known, and ``notes``."""
    enforced = facts.recent_enforced
    return replace(
        plan,
        recent_files=facts.recent_files if enforced else facts.recent_files[:MOST_TOLD],
        recent_files_enforced=enforced,
        notes=(*plan.notes, *notes, *_build_notes(settings, facts)),
    )


def read_earlier_nights(settings: Settings, project: Project | None) -> Memory:
    """Earlier nights as GitLab knows them; without a token, marked unknown."""
    if project is None:
        return Memory(unknown=("earlier and open merge requests (no GITLAB_TOKEN)",))
    labels = (NIGHT_LABEL,) if settings.labels is None else settings.labels
    return project.read_memory(settings.branch_prefix, labels[0] if labels else "")


def _describe_memory(memory: Memory) -> tuple[str, ...]:
    if not (refused := len(memory.rejected)):
        return ()
    ideas = "1 idea" if refused == 1 else f"{refused} ideas"
    return (f"{ideas} from earlier nights were closed without a merge and are not proposed again.",)


def _build_notes(settings: Settings, facts: CheckoutFacts) -> tuple[str, ...]:
    notes: list[str] = []
    if not facts.recent_enforced:
        notes.append(
            f"The last {settings.avoid_recent_commits} commits touched more than half of the "
            "files: these are told to Analyze, but not refused."
        )
    if facts.unknown_commits:
        known = settings.avoid_recent_commits - facts.unknown_commits
        notes.append(
            f"avoid_recent_commits: the history here has {known} of the last "
            f"{settings.avoid_recent_commits} commits; files touched by older ones are unknown "
            "and may be changed again: raise GIT_DEPTH"
        )
    return tuple(notes)
