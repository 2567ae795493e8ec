"""The kinds of run and how they differ: a night, a given task, upkeep of an open merge request."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.agents.agent import AgentProvider, BeadTask
from gitlab_nightshift.errors import Code
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    Draft,
    ThreadAnswer,
)
from gitlab_nightshift.records.events import StepEnded
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
from gitlab_nightshift.stages.work.gateway_access import check_cost_limit
from gitlab_nightshift.stages.work.night import (
    ANSWERS,
    Night,
    WriteDraft,
    build_ending,
    build_stopped_ending,
    make_proven_change,
    propose_change,
    run_night_bead,
    select_answers,
    try_categories,
    write_draft,
)
from gitlab_nightshift.stages.work.night_ending import CategoryResult, Ending, shorten_to_line
from gitlab_nightshift.stages.work.run_budget import Stop
from gitlab_nightshift.stages.work.work_context import WorkContext


def _build_failed_task_ending(night: Night, stop: Stop, tried: Sequence[CategoryResult]) -> Ending:
    if tried:
        reason = f"the task could not be done: {shorten_to_line(stop.reason)}"
        stop = Stop(Outcome.FAILED, reason, stop.code)
    return build_stopped_ending(night, stop, tried)


@dataclass(frozen=True)
class TaskPolicy:
    """How a given task is done; the defaults are a night's.

    ``on_failure`` is called after each failed attempt, ``write_draft`` writes the texts of the
    merge request. ``build_failed_ending`` builds the ending of a failed task; its last argument
    has the task's result, or is empty if a limit stopped the task.
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
        outcome = make_proven_change(night, TASK, analysis, policy.on_failure)
        answers: tuple[ThreadAnswer, ...] = ()
        if isinstance(outcome, FailedAttempt):
            answers = _ask_for_answers(night, analysis, outcome)
    except Stop as stop:
        # A night may end within its budget without a change; someone waits for this task.
        code = Code.BUDGET if stop.code is None else stop.code
        return policy.build_failed_ending(night, Stop(Outcome.FAILED, stop.reason, code), ())
    if answers:
        reason = "answered without a change"
        tried = [CategoryResult(TASK, reason)]
        ending = build_ending(night, Outcome.NO_IMPROVEMENT, reason, tried)
        return dataclasses.replace(ending, answers=answers)
    if isinstance(outcome, ProvenChange):
        return propose_change(night, TASK, analysis, outcome, [], policy.write_draft)
    failed = Stop(Outcome.FAILED, outcome.why, outcome.code)
    return policy.build_failed_ending(night, failed, [CategoryResult(TASK, outcome.why)])


def _ask_for_answers(
    night: Night, analysis: AnalysisResult, last_attempt: FailedAttempt
) -> tuple[ThreadAnswer, ...]:
    """Run the MR bead only for its answers, if threads are waiting and the last attempt changed
    nothing; else there are none. Raises Stop."""
    request = night.plan.request
    if request is None or not last_attempt.unchanged:
        return ()
    sections = {ANSWERS: format_answer_request(request, last_attempt.last_message)}
    result = run_night_bead(night, "mr", TASK, 1, analysis, sections=sections)
    drafted = result.handoff.answers if isinstance(result.handoff, Draft) else ()
    answers = select_answers(drafted, request)
    count = f"{len(answers)} of {count_threads(request)} threads answered"
    night.emit(StepEnded(format_step_key("mr", TASK, 1), bool(answers), result.error or count))
    return answers


@dataclass(frozen=True)
class AgentSetup:
    """The agent's provider, and the prompt templates of the beads."""

    provider: AgentProvider
    templates: Mapping[str, str]


def prepare_agent(work_context: WorkContext) -> AgentSetup:
    """Load the templates, and check the agent's CLI, its key and its limits.

    Raises :class:`NightshiftError` (``E_CONFIG``, ``E_PROVIDER_UNAVAILABLE``).
    """
    templates = load_templates(work_context)
    provider = build_provider(work_context.settings)
    env = {**work_context.model_env, **work_context.search_env}
    provider.check(env)
    check_cost_limit(work_context.settings, provider, env)
    return AgentSetup(provider, templates)


def find_agent_program(work_context: WorkContext, provider: AgentProvider) -> Path:
    """The program that beads start: the CLI, or this program's own loop for a plain model."""
    # Any bead will do: all start the same program.
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
    return Path(provider.build_bead_args(task, work_context.search_path)[0])


@dataclass(frozen=True)
class Workflow:
    """The steps in which kinds of run differ.

    Before the sandbox opens, ``choose_checkout`` gives the plan and the context their checkout, and
    ``prepare`` sets up the agent. In the sandbox, ``run_baseline`` comes before any agent, ``run``
    is the work with agents. ``runs_unscheduled``: it also runs if the plan skips the night or has
    no scheduled category.
    """

    run_baseline: Callable[[WorkContext, Checkout, Runner], Baseline]
    run: Callable[[Night], Ending]
    choose_checkout: Callable[[Plan, WorkContext], tuple[Plan, WorkContext]] = (
        lambda plan, work_context: (plan, work_context)
    )
    prepare: Callable[[WorkContext], AgentSetup] = prepare_agent
    runs_unscheduled: bool = False


NIGHT = Workflow(
    run_baseline, lambda night: do_task(night) if night.plan.task else try_categories(night)
)
_NO_ALARM = {Code.TEST_FAILED, Code.APPLY_FAILED, Code.POLICY_DENY, Code.BUDGET}
"""Error codes of a failed upkeep that do not fail the run: people read the reply instead."""


def _run_upkeep(night: Night) -> Ending:
    ending = do_task(night)
    if ending.error_code not in _NO_ALARM:
        return ending
    return dataclasses.replace(ending, outcome=Outcome.NO_IMPROVEMENT, error_code="")


def _run_red_baseline(work_context: WorkContext, checkout: Checkout, runner: Runner) -> Baseline:
    """Run commands that are expected to fail. The change is to repair them, so unlike with another
    red baseline they have to pass on it."""
    baseline = run_baseline(work_context, checkout, runner, "report")
    return dataclasses.replace(baseline, red=False)


REVIEW = dataclasses.replace(NIGHT, run=_run_upkeep)
"""Upkeep: the answer to a review of the night's own merge request."""
REPAIR = Workflow(_run_red_baseline, _run_upkeep)
"""Upkeep: the repair of that merge request's failed pipeline."""
REPAIR_TASK = Workflow(_run_red_baseline, do_task)
"""A task that somebody requested on a merge request whose pipeline has failed."""
