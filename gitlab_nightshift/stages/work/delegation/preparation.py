"""Prepare: find out and decide everything that can be known before an agent runs."""

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.products import Plan
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.repository.git import CommitIdentity
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.delegation.agent_choice import (
    FALLBACK,
    ProviderChoice,
    choose,
    choose_fallback,
    may_fall_back,
)
from gitlab_nightshift.stages.work.delegation.delegation_context import (
    DelegationContext,
    build_fallback_note,
    describe_no_fallback,
)
from gitlab_nightshift.stages.work.delegation.delegation_gates import find_approver, pass_gates
from gitlab_nightshift.stages.work.delegation.delegation_settings import (
    narrow_settings,
    read_settings,
)
from gitlab_nightshift.stages.work.delegation.delegation_source import (
    check_subdir,
    choose_branch,
    find_base,
)
from gitlab_nightshift.stages.work.delegation.delegation_workspace import check_clean
from gitlab_nightshift.stages.work.delegation.packaged_change import find_author
from gitlab_nightshift.system.environment import build_search_path


@dataclass
class PreparationState:
    """What is known so far. ``output_dir`` is set once results may be kept."""

    output_dir: str | None = None
    base: str | None = None
    chosen: ProviderChoice | None = None


@dataclass(frozen=True)
class PreparedDelegation:
    """What is fixed before the workspace is made. ``person`` is who commits, None where nobody
    does; ``branch`` is "" then. ``second`` takes over where the agent cannot be used; a text says
    why it cannot, either; None: nobody asked for a fallback."""

    source: DelegationSource
    base: str
    branch: str
    person: CommitIdentity | None
    plan: Plan
    first: ProviderChoice
    second: ProviderChoice | str | None


def prepare(
    context: DelegationContext, known: PreparationState, source: DelegationSource
) -> PreparedDelegation:
    """Settings, gates, refs, the agent. Raises NightshiftError with the first that is wrong."""
    payload = context.payload
    search_path = build_search_path(context.env, source.top)
    context = dataclasses.replace(context, env={**context.env, "PATH": search_path})
    settings = read_settings(source, context.env, context.job)
    known.output_dir = settings.output_dir
    pass_gates(payload, settings, find_approver(settings, context.job, context.env), context.emit)
    base = known.base = find_base(source, payload)
    subdir = check_subdir(source, base, payload.workspace.workspace_subdir)
    settings = narrow_settings(settings, payload, subdir)
    check_clean(source, payload, settings.output_dir)
    commits = _commits(context, source)
    branch = choose_branch(source, payload, context.job.run_id) if commits else ""
    person = find_author(source, context.job) if commits else None
    first = known.chosen = _choose_provider(context, settings)
    plan = _build_plan(context, settings, base, branch)
    return PreparedDelegation(
        source, base, branch, person, plan, first, _prepare_fallback(context, settings, first)
    )


def _commits(context: DelegationContext, source: DelegationSource) -> bool:
    in_place = context.payload.workspace.checkout_mode == "in_place"
    execution = context.payload.execution
    handed_over = execution.apply_changes and not execution.dry_run
    return handed_over and not in_place and not source.fetched


def _choose_provider(context: DelegationContext, settings: Settings) -> ProviderChoice:
    try:
        return choose(context.payload, settings, context.env, context.emit)
    except NightshiftError as error:
        if not may_fall_back(context.payload, error.code):
            raise
        try:
            chosen = choose_fallback(context.payload, settings, context.env)
        except NightshiftError as none:
            text = describe_no_fallback(error.message, none.message)
            raise NightshiftError(error.code, text) from None
        context.emit(build_fallback_note(error.message))
        return chosen


def _prepare_fallback(
    context: DelegationContext, settings: Settings, first: ProviderChoice
) -> ProviderChoice | str | None:
    asked = may_fall_back(context.payload, Code.PROVIDER_UNAVAILABLE)
    if not asked or first.settings.agent == FALLBACK:
        return None
    try:
        return choose_fallback(context.payload, settings, context.env)
    except NightshiftError as none:
        return none.message


def _build_plan(context: DelegationContext, settings: Settings, base: str, branch: str) -> Plan:
    """A night's plan, of one task; files of recent commits may change, since somebody asked."""
    return Plan(
        run_id=context.job.run_id,
        date=f"{datetime.now(UTC):%A %Y-%m-%d}",
        base_sha=base,
        target_branch=context.job.default_branch or branch,
        scheduled=TASK,
        categories=(TASK,),
        task=settings.task or "",
        recent_files_enforced=False,
        max_diff_lines=settings.max_diff_lines,
        max_budget_usd=settings.max_budget_usd,
        max_tokens=settings.max_tokens,
        verify_commands=tuple(settings.verify_commands),
    )
