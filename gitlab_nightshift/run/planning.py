"""The plan stage of a session: the upkeep of an open merge request, and the night's own work."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.agents import build_provider, choose_agent
from gitlab_nightshift.errors import Interruption, NightshiftError, build_config_error
from gitlab_nightshift.gitlab.api_error import ApiError, call_or_none
from gitlab_nightshift.gitlab.history import Memory
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.policy.gates import describe_closed_gates
from gitlab_nightshift.policy.prompts import BEADS, load_bead_template
from gitlab_nightshift.records.events import Note, RunStarted, StepEnded, StepStarted
from gitlab_nightshift.records.products import KnownMergeRequest, PipelineJob, Plan
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.storage import UPKEEP, read_record, write_record
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.run.comment_runs import (
    TriggerContext,
    add_request_to_plan,
    open_request_session,
    read_trigger_context,
    reply_failed,
    reply_started,
)
from gitlab_nightshift.run.dashboard_runs import DashboardOrders, confirm_orders, read_orders
from gitlab_nightshift.run.process_inputs import (
    PUBLISH_NEEDS_S,
    build_work_context,
    compute_work_seconds,
    find_verify_commands,
)
from gitlab_nightshift.run.publishing import build_failed_bundle, read_checkout_facts
from gitlab_nightshift.run.session_opening import locate_product
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.comment_request import find_other_run
from gitlab_nightshift.stages.plan.earlier_runs import (
    EarlierTry,
    find_earlier_try,
    find_skips,
    find_tonights_run,
)
from gitlab_nightshift.stages.plan.plan_stage import (
    CheckoutFacts,
    add_recent_files,
    check_paths,
    deepen_facts,
    make_plan,
    read_earlier_nights,
)
from gitlab_nightshift.stages.plan.preflight import ANY_SLUG, check_with_gitlab, try_push
from gitlab_nightshift.stages.plan.schedule import (
    check_task_source,
    find_blockers,
    resolve_category,
    resolve_run_day,
)
from gitlab_nightshift.stages.plan.upkeep import (
    find_candidates,
    find_upkeep,
    parse_pipeline_time,
    rebase_conflicting,
)
from gitlab_nightshift.stages.publish.bundle_check import refuse_unknown_category
from gitlab_nightshift.stages.publish.merge_request import check_templates, list_usual_labels
from gitlab_nightshift.stages.publish.publish_context import build_git_server, choose_author
from gitlab_nightshift.stages.work.gateway_access import check_cost_limit
from gitlab_nightshift.stages.work.work_context import NOTHING_TO_RUN, VerifyCommands

PAUSE_MARK = "<!-- nightshift-pause -->"
"""Marks the comment about a pause, so that it is added only once."""
NOTHING_TICKED = "an issue was edited, but no box on the dashboard asks for a night"


@dataclass(frozen=True)
class _PlanInputs:
    """What the plan is made from. ``upkeep`` is the request for one more commit on an open merge
    request; ``notes`` say what was rebased; ``tonight`` is the id of an earlier pipeline that has
    run tonight's night, 0 for none.
    """

    facts: CheckoutFacts
    trigger: TriggerContext
    memory: Memory
    upkeep: TaskRequest | None = None
    notes: tuple[str, ...] = ()
    tonight: int = 0


@dataclass(frozen=True)
class PlannedRun:
    """A plan with its session and inputs. ``earlier`` is what an earlier try of the run left."""

    session: Session
    plan: Plan
    inputs: _PlanInputs
    earlier: EarlierTry | None = None


@dataclass(frozen=True)
class PlannedUpkeep:
    """The plan and the session of an upkeep."""

    session: Session
    plan: Plan


def _gather_inputs(session: Session) -> _PlanInputs:
    """Check the settings, then read the checkout and GitLab. Rebases merge requests in conflict."""
    session.emit(StepStarted("plan", "Plan"))
    # Run offline checks first: they report mistakes at once, even without a token.
    check_task_source(session.settings, session.job)
    check_templates(session.settings)
    settings = choose_agent(session.settings, session.search_env).settings
    check_cost_limit(settings, build_provider(settings), session.env)
    for bead in BEADS:
        load_bead_template(bead, session.settings, session.config_folder)
    facts, trigger = read_checkout_facts(session), read_trigger_context(session)
    check_paths(session.settings, facts)
    memory = read_earlier_nights(session.settings, trigger.project)
    # Upkeep is part of a night of the schedule, not of what a comment or a tick asks for.
    if trigger.comment or trigger.edited or not trigger.project:
        return _PlanInputs(facts, trigger, memory)
    tonight = find_tonights_run(trigger.project, session.job)
    if tonight or not _allows_upkeep(session, memory):
        return _PlanInputs(facts, trigger, memory, tonight=tonight)
    request, notes = find_upkeep_request(session, trigger.project, memory.open)
    return _PlanInputs(facts, trigger, memory, request, notes)


def _allows_upkeep(session: Session, memory: Memory) -> bool:
    """True on a scheduled night without a pause. Too many open merge requests do not stop it."""
    settings, job = session.settings, session.job
    if not (settings.upkeep and settings.enabled and job.in_ci):
        return False
    if settings.task or settings.category or settings.dry_run or settings.rehearse:
        return False
    day = resolve_run_day(job.pipeline_created_at, settings.timezone, datetime.now(UTC))
    is_quiet = day in settings.quiet_dates or not resolve_category(settings, day)
    return not is_quiet and not find_blockers(settings, memory, day)


@contextlib.contextmanager
def run_plan_stage(session: Session, *, single_job: bool) -> Iterator[PlannedRun]:
    """Run the plan stage, which writes ``plan.json``. During the block, the commit that a comment
    asks for is checked out. ``single_job``: the other stages run in the same job."""
    inputs = _gather_inputs(session)
    with open_request_session(session, inputs.trigger.request) as request_session:
        yield _plan_run(request_session, inputs, single_job=single_job)


def plan_for_later_job(session: Session) -> Plan:
    """Run only the plan stage: a later job may run the others."""
    try:
        with run_plan_stage(session, single_job=False) as planned:
            pass
        with plan_upkeep(session, planned):
            return planned.plan
    except (NightshiftError, Interruption) as error:
        reply_failed(session, build_failed_bundle(session, error))
        raise


def _plan_run(session: Session, inputs: _PlanInputs, *, single_job: bool) -> PlannedRun:
    trigger, request = inputs.trigger, inputs.trigger.request
    # With a head, open_request_session has checked out another commit.
    facts = read_checkout_facts(session) if request and request.head else inputs.facts
    earlier = _find_earlier_try(session, inputs, facts, single_job=single_job)
    orders = DashboardOrders(session)
    if not (trigger.comment or earlier):  # a comment's run does only what the comment asks for
        orders = read_orders(session, trigger.project)
        session = orders.session
    verify = find_verify_commands(session, request)
    plan = _make_plan(session, inputs, orders, facts, verify.commands)
    if earlier:
        plan = replace(plan, skip=earlier.why)
    plan = _complete_plan(session, plan, inputs, facts, is_new=earlier is None)
    if trigger.project and not single_job:
        plan = replace(plan, jobs=_list_jobs(session, trigger.project))
    reply_started(session, plan, trigger.comment)
    _write_plan(session, plan, verify, done_before=earlier is not None)
    if trigger.project:
        confirm_orders(trigger.project, orders.keep_approvals() if plan.skip else orders, plan)
        if plan.pausing and not earlier and not session.settings.rehearse:
            _explain_pause(session, trigger.project, plan)
    return PlannedRun(session, plan, inputs, earlier)


def _make_plan(
    session: Session,
    inputs: _PlanInputs,
    orders: DashboardOrders,
    facts: CheckoutFacts,
    commands: tuple[str, ...],
) -> Plan:
    """The plan from settings, GitLab and the request, before any trial."""
    trigger, memory = inputs.trigger, inputs.memory.drop_rejections(orders.restored)
    plan = make_plan(session.settings, session.job, facts, trigger.project, memory, commands)
    plan = replace(plan, notes=(*plan.notes, *inputs.notes))
    plan = add_request_to_plan(plan, trigger.comment)
    if trigger.edited and not orders.category:
        plan = replace(plan, skip=plan.skip or NOTHING_TICKED)
    if inputs.tonight:
        text = f"tonight's night of this project has run in pipeline {inputs.tonight}"
        plan = replace(plan, skip=plan.skip or text)
    return plan


def _complete_plan(
    session: Session, plan: Plan, inputs: _PlanInputs, facts: CheckoutFacts, *, is_new: bool
) -> Plan:
    """Complete the plan by trials and by more requests to GitLab. ``is_new``: no earlier try of
    this run has done the work."""
    project, request = inputs.trigger.project, inputs.trigger.request
    rehearse = session.settings.rehearse
    notes: tuple[str, ...] = ()
    if project and is_new and (rehearse or (plan.scheduled and not plan.skip)):
        notes = _try_publishing(session, project, facts)
        if not (request and request.head):  # a requested branch has its own history
            facts = _deepen_history(session, facts)
    plan = add_recent_files(plan, session.settings, facts, notes)
    if project and is_new and not rehearse:
        plan = _add_skips(session, plan, project)
    if project and request and (other := find_other_run(request, project, plan.run_id)):
        plan = replace(plan, skip=f"the comment has already been handled, by pipeline {other}")
    return plan


def _try_publishing(session: Session, project: Project, facts: CheckoutFacts) -> tuple[str, ...]:
    """Try what publish will do with GitLab and git. Returns notes; raises NightshiftError if
    publishing would fail."""
    notes = check_with_gitlab(session.settings, project, _estimate_end(session))
    choose_author(session, project, session.known_checkout.identity)
    notes += _try_writing(session, project)
    branch, server = f"{session.settings.branch_prefix}{ANY_SLUG}", build_git_server(session)
    repository, _ = session.known_checkout.paths_and_head
    try_push(session.git, repository, server, facts.base_sha, branch, session.tell)
    return notes


def _try_writing(session: Session, project: Project) -> tuple[str, ...]:
    """In a rehearsal, create the night's label to test a fine-grained token: GitLab does not list
    its permissions. Raises ``E_CONFIG`` if it may not."""
    settings = session.settings
    if not (settings.rehearse and project.check_access().fine_grained):
        return ()
    labels = list_usual_labels(settings)[:1]
    if settings.dry_run or not labels:
        return ("not known: whether the fine-grained token may write, as nothing is written",)
    if refused := project.ensure_labels(labels):
        raise build_config_error(f"GITLAB_TOKEN may not write: {refused[0]}")
    return (f"the fine-grained token may write: it has made the label {labels[0].name}",)


def _find_earlier_try(
    session: Session, inputs: _PlanInputs, facts: CheckoutFacts, *, single_job: bool
) -> EarlierTry | None:
    """What an earlier try of this run left, None without one. GitLab is not asked if no night will
    follow anyway."""
    trigger, project, settings = inputs.trigger, inputs.trigger.project, session.settings
    is_refused = trigger.comment is not None and trigger.request is None
    if project is None or is_refused or settings.rehearse or not settings.enabled:
        return None
    bundle_dir = f"{settings.output_dir}/bundle"
    earlier = find_earlier_try(project, session.job, facts, bundle_dir, single_job=single_job)
    if earlier:
        refuse_unknown_category(earlier.bundle, settings)
    return earlier


def _add_skips(session: Session, plan: Plan, project: Project) -> Plan:
    skips = find_skips(project, session.job, session.settings.output_dir)
    if skips is None:
        return replace(plan, unknown=(*plan.unknown, "whether the last nights were skipped too"))
    return replace(plan, skipped_before=skips)


def _list_jobs(session: Session, project: Project) -> tuple[PipelineJob, ...]:
    """The jobs of this pipeline; empty outside a pipeline, or if the token may not list them."""
    if not session.env.get("CI_PIPELINE_ID"):
        return ()
    jobs = call_or_none(lambda: project.pipelines.list_jobs(session.job.run_id), 403, 404)
    return tuple(PipelineJob(job.name, job.id) for job in jobs or ())


def _estimate_end(session: Session) -> datetime:
    """When the run ends at the latest; without a deadline, only publishing is counted."""
    now = datetime.now(UTC)
    seconds = compute_work_seconds(session, now) or 0.0
    return now + timedelta(seconds=seconds + PUBLISH_NEEDS_S)


def _deepen_history(session: Session, facts: CheckoutFacts) -> CheckoutFacts:
    """Fetch missing commits of the history for ``avoid_recent_commits``, as far as possible."""
    if not facts.unknown_commits:
        return facts
    repository, _ = session.known_checkout.paths_and_head
    count = session.settings.avoid_recent_commits
    return deepen_facts(facts, session.git, repository, build_git_server(session), count)


def _write_plan(session: Session, plan: Plan, verify: VerifyCommands, *, done_before: bool) -> None:
    """Write the plan, and log it. ``done_before``: an earlier try of this run did the work."""
    write_record(session.results / "plan.json", plan)
    for text in describe_closed_gates(session.settings):
        session.emit(Note(text, warning=True))
    for skipped in plan.left_out:
        session.emit(Note(f"{skipped.category} is left out: {skipped.reason}"))
    for note in (*plan.notes, *(f"not known: {text}" for text in plan.unknown)):
        session.emit(Note(note))
    session.emit(Note(f"proven by: {_describe_verification(verify)}"))
    text = plan.skip if done_before else _describe_plan(plan)
    session.emit(StepEnded("plan", done_before or not plan.skip, text))


def _explain_pause(session: Session, project: Project, plan: Plan) -> None:
    """Comment once, for the reviewers, on the newest merge request that causes the pause."""
    body = f"The night shift pauses: {plan.skip}. To turn this off, set `throttle: false`."
    try:
        project.threads.add_comment_once("merge_requests", plan.pausing[0], body, PAUSE_MARK)
    except NightshiftError as error:
        session.emit(Note(f"could not comment on the pause: {error.message}", warning=True))


def _describe_verification(verify: VerifyCommands) -> str:
    source = "the build files; verify_commands is empty" if verify.implied else "verify_commands"
    return f"{', '.join(verify.commands)} ({source})" if verify.commands else NOTHING_TO_RUN


def _describe_plan(plan: Plan) -> str:
    if plan.skip:
        return f"skip: {plan.skip}"
    if not plan.scheduled:
        return "No category scheduled for today"
    return f"{plan.date}: {', then '.join(plan.categories)}"


def preview(session: Session, plan: Plan) -> dict[str, str]:
    """The prompts of a night as they would be sent, without coverage reports, which this process
    must not read: it may hold the token."""
    from gitlab_nightshift.stages.work.bead_prompt import preview_prompts
    from gitlab_nightshift.stages.work.brief.repository_brief import BriefSources, make_brief

    context = build_work_context(session)
    repository = Repository(session.git, session.known_checkout.paths_and_head[0].git_dir)
    commands = context.build_commands
    sources = BriefSources(plan, session.checkout, repository, commands, read_coverage=False)
    return preview_prompts(context, plan, make_brief(sources))


def emit_run_started(session: Session) -> None:
    """Announce the run: project, agent and limits."""
    settings = session.settings
    seconds = compute_work_seconds(session, datetime.now(UTC))
    time_left = "no deadline" if seconds is None else f"{seconds / 60:.0f} min for the work"
    facts = [
        f"agent {choose_agent(settings, session.search_env)}, isolation {settings.isolation}",
        f"budget ${settings.max_budget_usd:g}, {time_left}, "
        f"at most {settings.max_diff_lines} changed lines",
    ]
    if settings.rehearse:
        facts.insert(0, "a rehearsal: no agent is started, nothing is spent")
    project = session.job.project_path or str(session.checkout)
    session.emit(RunStarted(project, tuple(facts)))


def read_plans(session: Session, file: str | None) -> tuple[Plan, Plan | None]:
    """The plan of an earlier job, and that of the same run's upkeep, None without one."""
    path = locate_product(session, file, "plan.json")
    plan = read_record(Plan, path)
    upkeep_path = path.parent / UPKEEP / "plan.json"
    upkeep = read_record(Plan, upkeep_path) if upkeep_path.exists() else None
    if upkeep and upkeep.run_id != plan.run_id:
        upkeep = None
    return plan, upkeep


# --- upkeep -------------------------------------------------------------------------------------


def find_upkeep_request(
    session: Session, project: Project, opened: Iterable[KnownMergeRequest]
) -> tuple[TaskRequest | None, tuple[str, ...]]:
    """Rebase merge requests in conflict. Returns the request for one more commit on a merge request
    that needs one, or None, and notes for the plan. Failures are notes, too."""
    notes: list[str] = []
    try:
        waiting = find_candidates(project, opened, session.job.run_id)
        notes += rebase_conflicting(project, waiting)
        now = parse_pipeline_time(session.job.pipeline_created_at)
        request = find_upkeep(project, waiting, session.redact, now)
    except ApiError as error:
        return None, (*notes, f"open merge requests could not be looked after: {error}")
    return request, tuple(notes)


@contextlib.contextmanager
def plan_upkeep(session: Session, night: PlannedRun) -> Iterator[PlannedUpkeep | None]:
    """Plan the upkeep, and write ``upkeep/plan.json``. During the block the merge request's branch
    is checked out. Yields None if there is nothing to do, if an earlier try of the run has done it,
    or, with a warning, if planning fails."""
    project, request = night.inputs.trigger.project, night.inputs.upkeep
    if project is None or request is None or night.earlier:
        yield None
        return
    with contextlib.ExitStack() as stack:
        try:
            request_session = stack.enter_context(open_request_session(session, request))
            upkeep = _plan_request(request_session, project, night.inputs.memory, request)
        except NightshiftError as error:
            session.emit(Note(f"no upkeep of !{request.place.iid}: {error.message}", warning=True))
            upkeep = None
        yield upkeep


def _plan_request(
    session: Session, project: Project, memory: Memory, request: TaskRequest
) -> PlannedUpkeep | None:
    facts = read_checkout_facts(session)
    commands = find_verify_commands(session, request).commands
    plan = make_plan(session.settings, session.job, facts, project, memory, commands)
    plan = replace(add_recent_files(plan, session.settings, facts, ()), request=request)
    # The markers of replies count the tries: without a reply, upkeep would be tried every night.
    if not reply_started(session, plan, request):
        session.emit(Note(f"no upkeep of !{request.place.iid}, which could not be told"))
        return None
    (session.results / UPKEEP).mkdir()
    write_record(session.results / UPKEEP / "plan.json", plan)
    session.emit(Note(f"before new work: {request.upkeep} of !{request.place.iid}"))
    return PlannedUpkeep(session, plan)
