"""The plan stage as a session runs it, and what stages share."""

import contextlib
import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.agents import build_provider, choose_agent
from gitlab_nightshift.errors import Interruption, NightshiftError, build_config_error
from gitlab_nightshift.gitlab.api_error import call_or_none
from gitlab_nightshift.gitlab.memory import Memory
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.policy.night_gates import describe_closed_gates
from gitlab_nightshift.policy.prompts import BEADS, load_bead_prompt
from gitlab_nightshift.records.events import Note, RunStarted, StepEnded, StepStarted
from gitlab_nightshift.records.products import PipelineJob, Plan
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.storage import read_record, write_record
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.run.comment_runs import (
    TriggerContext,
    add_request_to_plan,
    build_git_server,
    start,
    take_up_request,
    tell_failed,
    tell_taken_up,
)
from gitlab_nightshift.run.dashboard_runs import DashboardOrders, confirm_orders, read_orders
from gitlab_nightshift.run.early_bundles import build_failed_bundle
from gitlab_nightshift.run.publishing import read_checkout_facts
from gitlab_nightshift.run.upkeep_planning import (
    PlannedUpkeep,
    look_after,
    plan_upkeep,
    read_upkeep_plan,
)
from gitlab_nightshift.run.work_setup import (
    PUBLISH_NEEDS_S,
    build_work_context,
    compute_work_seconds,
    find_verify_commands,
)
from gitlab_nightshift.session import Session, locate_product
from gitlab_nightshift.stages.plan.checkout_facts import CheckoutFacts, check_paths, deepen_facts
from gitlab_nightshift.stages.plan.comment_check import find_other_run
from gitlab_nightshift.stages.plan.earlier_nights import find_skips
from gitlab_nightshift.stages.plan.earlier_run import EarlierRun, find_earlier_run
from gitlab_nightshift.stages.plan.plan_stage import add_findings, make_plan, read_earlier_nights
from gitlab_nightshift.stages.plan.preflight import ANY_SLUG, check_with_gitlab
from gitlab_nightshift.stages.plan.push_trial import try_push
from gitlab_nightshift.stages.plan.schedule import (
    check_task_source,
    find_pausing,
    resolve_category,
    resolve_run_day,
)
from gitlab_nightshift.stages.publish.bundle_check import refuse_unknown_category
from gitlab_nightshift.stages.publish.merge_request import check_templates, list_usual_labels
from gitlab_nightshift.stages.publish.publish_context import choose_author
from gitlab_nightshift.stages.work.cost_bounds import check_bounds
from gitlab_nightshift.stages.work.proof_choice import NOTHING_TO_RUN, Commands

PAUSE_MARK = "<!-- nightshift-pause -->"
NOTHING_TICKED = "an issue was edited, but no box on the dashboard asks for a night"


@dataclass(frozen=True)
class _PlanInputs:
    """What is known before the plan: the checkout, and what GitLab says. ``upkeep`` is for an open
    merge request, ``notes`` say what was rebased."""

    facts: CheckoutFacts
    start: TriggerContext
    memory: Memory
    upkeep: TaskRequest | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedRun:
    """A plan, its session and inputs, and what an earlier try has left for it."""

    session: Session
    plan: Plan
    inputs: _PlanInputs
    earlier: EarlierRun | None = None


def _begin(session: Session) -> _PlanInputs:
    """What can be known without GitLab comes first."""
    session.emit(StepStarted("plan", "Plan"))
    check_task_source(session.settings, session.job)
    check_templates(session.settings)
    settings = choose_agent(session.settings, session.search_env).settings
    check_bounds(settings, build_provider(settings), session.env)
    for bead in BEADS:
        load_bead_prompt(bead, session.settings, session.config_folder)
    facts, begun = read_checkout_facts(session), start(session)
    check_paths(session.settings, facts)
    memory = read_earlier_nights(session.settings, begun.project)
    if begun.heard or begun.edited or not begun.project or not _allows_upkeep(session, memory):
        return _PlanInputs(facts, begun, memory)
    request, notes = look_after(session, begun.project, memory.opened)
    return _PlanInputs(facts, begun, memory, request, notes)


def _allows_upkeep(session: Session, memory: Memory) -> bool:
    """Whether open merge requests are looked after: on a real night of the schedule, which nothing
    pauses. A full list of open ones does not."""
    settings, job = session.settings, session.job
    if not (settings.upkeep and settings.enabled and job.in_ci):
        return False
    if settings.task or settings.category or settings.dry_run or settings.rehearse:
        return False
    day = resolve_run_day(job.pipeline_created_at, settings.timezone, datetime.now(UTC))
    off = day in settings.quiet_dates or not resolve_category(settings, day)
    return not off and not find_pausing(settings, memory, day)


@contextlib.contextmanager
def run_plan_stage(session: Session, *, whole: bool) -> Iterator[PlannedRun]:
    """The plan stage, which writes ``plan.json``; and the session with what a comment asks for,
    while the checkout stands where that is to be done. ``whole``: the same job does the rest."""
    begun = _begin(session)
    with take_up_request(session, begun.start.request) as there:
        yield _plan_run(there, begun, whole=whole)


def plan(session: Session) -> Plan:
    """The plan stage alone."""
    try:
        with run_plan_stage(session, whole=False) as planned:
            pass
        with run_upkeep_plan(session, planned):
            return planned.plan
    except (NightshiftError, Interruption) as error:
        tell_failed(session, build_failed_bundle(session, error))
        raise


def run_upkeep_plan(
    session: Session, night: PlannedRun
) -> AbstractContextManager[PlannedUpkeep | None]:
    """What is done before the night; where there was an earlier try, that one has done it."""
    found, request = night.inputs, None if night.earlier else night.inputs.upkeep
    return plan_upkeep(session, found.start.project, found.memory, request)


def _plan_run(session: Session, begun: _PlanInputs, *, whole: bool) -> PlannedRun:
    request, heard, project = begun.start.request, begun.start.heard, begun.start.project
    facts = read_checkout_facts(session) if request and request.head else begun.facts
    earlier = _find_earlier_run(session, begun, facts, whole=whole)
    orders = DashboardOrders(session)
    if not (heard or earlier):
        orders = read_orders(session, project)
        session = orders.session
    verify = find_verify_commands(session, request)
    memory = begun.memory.restore(orders.restored)
    made = make_plan(session.settings, session.job, facts, project, memory, verify.commands)
    made = replace(made, notes=(*made.notes, *begun.notes))
    made = add_request_to_plan(made, heard)
    if begun.start.edited and not orders.category:
        made = replace(made, skip=made.skip or NOTHING_TICKED)
    notes: tuple[str, ...] = ()
    if earlier:
        made = replace(made, skip=earlier.why)
    elif project and (session.settings.rehearse or (made.scheduled and not made.skip)):
        notes = check_with_gitlab(session.settings, project, _estimate_end(session))
        identity = git_verbs.read_identity(session.machine_git, session.checkout)
        choose_author(session, project, identity)
        notes += _try_writing(session, project)
        _try_push(session, facts)
        if not (request and request.head):  # its own branch is no part of the target's history
            facts = _deepen_history(session, facts)
    made = add_findings(made, session.settings, facts, notes)
    tonight = project and not earlier and not session.settings.rehearse
    if project and tonight:
        made = _add_skips(session, made, project)
    if project and request and (other := find_other_run(request, project, made.run_id)):
        made = replace(made, skip=f"the comment has already been handled, by pipeline {other}")
    if project and not whole:
        made = replace(made, jobs=_list_jobs(session, project))
    tell_taken_up(session, made, heard)
    _write_plan(session, made, verify, done_before=earlier is not None)
    if project:
        confirm_orders(project, orders.keep_approvals() if made.skip else orders, made)
    if made.pausing and project and tonight:
        _tell_pause(session, project, made)
    return PlannedRun(session, made, begun, earlier)


def _try_writing(session: Session, project: Project) -> tuple[str, ...]:
    """In a rehearsal, make the night's label by a fine-grained token, whose permissions GitLab does
    not list. Raises ``E_CONFIG`` where it may not."""
    settings = session.settings
    if not (settings.rehearse and project.check_access().fine_grained):
        return ()
    labels = list_usual_labels(settings)[:1]
    if settings.dry_run or not labels:
        return ("not known: whether the fine-grained token may write, as nothing is written",)
    if refused := project.ensure_labels(labels):
        raise build_config_error(f"GITLAB_TOKEN may not write: {refused[0]}")
    return (f"the fine-grained token may write: it has made the label {labels[0].name}",)


def _find_earlier_run(
    session: Session, begun: _PlanInputs, facts: CheckoutFacts, *, whole: bool
) -> EarlierRun | None:
    """What an earlier try has left; nothing is asked where there will be no night in any case."""
    project, unasked = begun.start.project, begun.start.heard and not begun.start.request
    settings = session.settings
    if project is None or unasked or settings.rehearse or not settings.enabled:
        return None
    place = f"{settings.output_dir}/bundle"
    if found := find_earlier_run(project, session.job, facts, place, whole=whole):
        refuse_unknown_category(found.bundle, settings)
    return found


def _add_skips(session: Session, made: Plan, project: Project) -> Plan:
    skips = find_skips(project, session.job, session.settings.output_dir)
    if skips is None:
        return replace(made, unknown=(*made.unknown, "whether the last nights were skipped too"))
    return replace(made, skipped_before=skips)


def _list_jobs(session: Session, project: Project) -> tuple[PipelineJob, ...]:
    """The jobs of this pipeline; none where there is none, or GitLab does not tell."""
    if not session.env.get("CI_PIPELINE_ID"):
        return ()
    found = call_or_none(lambda: project.pipelines.list_jobs(session.job.run_id), 403, 404)
    return tuple(PipelineJob(each.name, each.id) for each in found or ())


def _estimate_end(session: Session) -> datetime:
    """When the run ends at the latest; now, with time to publish, where it has no deadline."""
    now = datetime.now(UTC)
    seconds = compute_work_seconds(session, now) or 0.0
    return now + timedelta(seconds=seconds + PUBLISH_NEEDS_S)


def _try_push(session: Session, facts: CheckoutFacts) -> None:
    source = git_verbs.find_repository_paths(session.git, session.checkout)
    branch, server = f"{session.settings.branch_prefix}{ANY_SLUG}", build_git_server(session)
    try_push(session.git, source, server, facts.base_sha, branch, session.tell)


def _deepen_history(session: Session, facts: CheckoutFacts) -> CheckoutFacts:
    """The facts with as much history as ``avoid_recent_commits`` asks for, where it can be had."""
    if not facts.unknown_commits:
        return facts
    source = git_verbs.find_repository_paths(session.git, session.checkout)
    count = session.settings.avoid_recent_commits
    return deepen_facts(facts, session.git, source, build_git_server(session), count)


def _write_plan(session: Session, made: Plan, verify: Commands, *, done_before: bool) -> None:
    """``done_before``: an earlier try of this run has done it, so that there is nothing to plan."""
    write_record(session.results / "plan.json", made)
    for text in describe_closed_gates(session.settings):
        session.emit(Note(text, warning=True))
    for each in made.left_out:
        session.emit(Note(f"{each.category} is left out: {each.reason}"))
    for note in (*made.notes, *(f"not known: {text}" for text in made.unknown)):
        session.emit(Note(note))
    session.emit(Note(f"proven by: {_describe_verification(verify)}"))
    text = made.skip if done_before else _describe_plan(made)
    session.emit(StepEnded("plan", done_before or not made.skip, text))


def _tell_pause(session: Session, project: Project, made: Plan) -> None:
    """Once, on the newest of those that wait: whoever is to review it is told there."""
    body = f"The night shift pauses: {made.skip}. To turn this off, set `throttle: false`."
    try:
        project.threads.add_comment_once("merge_requests", made.pausing[0], body, PAUSE_MARK)
    except NightshiftError as error:
        session.emit(Note(f"could not comment on the pause: {error.message}", warning=True))


def _describe_verification(verify: Commands) -> str:
    source = "the build files; verify_commands is empty" if verify.implied else "verify_commands"
    return f"{', '.join(verify.commands)} ({source})" if verify.commands else NOTHING_TO_RUN


def _describe_plan(made: Plan) -> str:
    if made.skip:
        return f"skip: {made.skip}"
    if not made.scheduled:
        return "No category scheduled for today"
    return f"{made.date}: {', then '.join(made.categories)}"


def preview(session: Session, made: Plan) -> dict[str, str]:
    """The prompts of a night as they would be sent. Coverage reports are left out: this process may
    hold the token."""
    from gitlab_nightshift.stages.work.brief.repository_brief import BriefSources, make_brief
    from gitlab_nightshift.stages.work.prompt_preview import preview_prompts

    place = build_work_context(session)
    run = functools.partial(session.git.run, cwd=session.checkout)
    sources = BriefSources(made, session.checkout, run, place.build_commands, coverage=False)
    return preview_prompts(place, made, make_brief(sources))


def emit_run_started(session: Session) -> None:
    """Say what will be done, where and within which limits."""
    settings = session.settings
    seconds = compute_work_seconds(session, datetime.now(UTC))
    time_left = "no deadline" if seconds is None else f"{seconds / 60:.0f} min for the work"
    rehearsal = ("a rehearsal: no agent is started, nothing is spent",)
    facts = (
        *(rehearsal if settings.rehearse else ()),
        f"agent {choose_agent(settings, session.search_env)}, isolation {settings.isolation}",
        f"budget ${settings.max_budget_usd:g}, {time_left}, "
        f"at most {settings.max_diff_lines} changed lines",
    )
    project = session.job.project_path or str(session.checkout)
    session.emit(RunStarted(project, facts))


def read_plans(session: Session, file: str | None) -> tuple[Plan, Plan | None]:
    """The plan of an earlier stage, and that of the upkeep before it."""
    place = locate_product(session, file, "plan.json")
    made = read_record(Plan, place)
    return made, read_upkeep_plan(made, place)
