"""The kinds of run and how they differ: a night, a given task, upkeep of an open merge request."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.agents.agent import BeadTask, Provider
from gitlab_nightshift.errors import Code
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.events import StepEnded
from gitlab_nightshift.records.handoffs import (
    AnalysisCandidate,
    AnalysisResult,
    Draft,
    ThreadAnswer,
)
from gitlab_nightshift.records.products import Outcome, Plan
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.stages.work.attempt import ProvenChange, format_step_key
from gitlab_nightshift.stages.work.baseline import Baseline, run_baseline
from gitlab_nightshift.stages.work.bead_prompt import (
    FailedAttempt,
    count_threads,
    format_answer_request,
    load_templates,
)
from gitlab_nightshift.stages.work.gateway_access import check_bounds
from gitlab_nightshift.stages.work.night import (
    ANSWERS,
    Night,
    WriteDraft,
    build_ending,
    build_stopped_ending,
    implement,
    propose_change,
    run_night_bead,
    select_answers,
    try_categories,
    write_draft,
)
from gitlab_nightshift.stages.work.night_ending import CategoryResult, Ending, take_first_line
from gitlab_nightshift.stages.work.run_budget import Stop
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_search_path


def _build_failed_task_ending(night: Night, stop: Stop, tried: Sequence[CategoryResult]) -> Ending:
    if tried:
        why = f"the task could not be done: {take_first_line(stop.reason)}"
        stop = Stop(Outcome.FAILED, why, stop.code)
    return build_stopped_ending(night, stop, tried)


@dataclass(frozen=True)
class TaskPolicy:
    """How a given task is done; the defaults are a night's.

    ``on_failure`` is called after each failed attempt, ``write_draft`` writes the texts of the
    merge request, and ``build_failed_ending`` builds the ending of a task that failed: because of a
    limit, or after the last of the attempts ``tried``.
    """

    on_failure: Callable[[Night, FailedAttempt], None] = lambda _night, _failed: None
    write_draft: WriteDraft = write_draft
    build_failed_ending: Callable[[Night, Stop, Sequence[CategoryResult]], Ending] = (
        _build_failed_task_ending
    )


NIGHT_POLICY = TaskPolicy()


def do_task(night: Night, policy: TaskPolicy = NIGHT_POLICY) -> Ending:
    """Do the given task without Analyze. A failure is an error: someone is waiting."""
    selected = AnalysisCandidate((), night.plan.task, rationale="Somebody asked for it.")
    analysis = AnalysisResult("IMPROVEMENT_FOUND", category_used=TASK, selected=selected)
    try:
        proven = implement(night, TASK, analysis, policy.on_failure)
        answers = _answer(night, analysis, proven) if isinstance(proven, FailedAttempt) else ()
    except Stop as stop:
        budget = Code.BUDGET if stop.code is None else stop.code
        return policy.build_failed_ending(night, Stop(Outcome.FAILED, stop.reason, budget), ())
    if answers:
        reason = "answered without a change"
        tried = [CategoryResult(TASK, reason)]
        ending = build_ending(night, Outcome.NO_IMPROVEMENT, reason, tried)
        return dataclasses.replace(ending, answers=answers)
    if isinstance(proven, ProvenChange):
        return propose_change(night, TASK, analysis, proven, [], policy.write_draft)
    failed = Stop(Outcome.FAILED, proven.why, proven.code)
    return policy.build_failed_ending(night, failed, [CategoryResult(TASK, proven.why)])


def _answer(
    night: Night, analysis: AnalysisResult, last: FailedAttempt
) -> tuple[ThreadAnswer, ...]:
    """The MR bead's answers if the ``last`` attempt changed nothing; () without any, or if no
    thread is waiting. Raises Stop."""
    request = night.plan.request
    if request is None or not last.unchanged:
        return ()
    sections = {ANSWERS: format_answer_request(request, last.last_words)}
    result = run_night_bead(night, "mr", TASK, 1, analysis, sections=sections)
    drafted = result.handoff.answers if isinstance(result.handoff, Draft) else ()
    answers = select_answers(drafted, request)
    count = f"{len(answers)} of {count_threads(request)} threads answered"
    night.emit(StepEnded(format_step_key("mr", TASK, 1), bool(answers), result.error or count))
    return answers


@dataclass(frozen=True)
class Tools:
    """The provider and the templates."""

    provider: Provider
    templates: Mapping[str, str]


def prepare(work_context: WorkContext) -> Tools:
    """Check in advance: templates, commands, the agent's CLI and key.

    Raises :class:`NightshiftError` (``E_CONFIG``, ``E_PROVIDER_UNAVAILABLE``).
    """
    templates = load_templates(work_context)
    provider = build_provider(work_context.settings)
    env = {**work_context.model_env, **work_context.search_env}
    provider.check(env)
    check_bounds(work_context.settings, provider, env)
    return Tools(provider, templates)


def find_agent_program(work_context: WorkContext, provider: Provider) -> Path:
    """The program that a bead would start."""
    task = BeadTask(
        bead="verify",
        category=TASK,
        attempt=1,
        model=work_context.settings.models.verify,
        checkout=work_context.checkout,
        handoff_file=work_context.private / "handoff.json",
        schema=None,
        allowed_commands=(),
        budget_usd=1.0,
    )
    path = build_search_path(work_context.env, work_context.checkout)
    return Path(provider.build_bead_args(task, path)[0])


@dataclass(frozen=True)
class Workflow:
    """What one kind of run does otherwise than another. The steps in the sandbox: ``baseline``
    before any agent runs, ``run`` with agents.

    ``choose_checkout`` gives the plan and the context their checkout, ``prepare`` builds the agent
    and its templates; ``any_day``: also run on a day without a night.
    """

    baseline: Callable[[WorkContext, Checkout, Runner], Baseline]
    run: Callable[[Night], Ending]
    choose_checkout: Callable[[Plan, WorkContext], tuple[Plan, WorkContext]] = lambda *given: given
    prepare: Callable[[WorkContext], Tools] = prepare
    any_day: bool = False


def _run_night(night: Night) -> Ending:
    """Try the plan's categories, or do the given task."""
    return do_task(night) if night.plan.task else try_categories(night)


NIGHT = Workflow(run_baseline, _run_night)
_NO_ALARM = {Code.TEST_FAILED, Code.APPLY_FAILED, Code.POLICY_DENY, Code.BUDGET}
"""Codes that fail a requested task, but need no alarm here: a person reads the reply in the merge
request."""


def _run_upkeep(night: Night) -> Ending:
    ending = do_task(night)
    if ending.error_code not in _NO_ALARM:
        return ending
    return dataclasses.replace(ending, outcome=Outcome.NO_IMPROVEMENT, error_code="")


def _run_red_baseline(work_context: WorkContext, checkout: Checkout, runner: Runner) -> Baseline:
    """Failing commands are to be repaired, so they must pass on the change."""
    baseline = run_baseline(work_context, checkout, runner, "report")
    return dataclasses.replace(baseline, red=False)


REVIEW = dataclasses.replace(NIGHT, run=_run_upkeep)
REPAIR = Workflow(_run_red_baseline, _run_upkeep)
ASKED_REPAIR = Workflow(_run_red_baseline, do_task)
"""A requested task on a merge request whose pipeline has failed."""
