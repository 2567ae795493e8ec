"""The kinds of a run and what they do otherwise: a night, the upkeep of an open merge request; and
what they prepare before the first model request."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.agents.agent import BeadTask, Provider
from gitlab_nightshift.errors import Code
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.products import Outcome, Plan
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.stages.work.baseline import Baseline, run_baseline
from gitlab_nightshift.stages.work.bead_prompt import load_templates
from gitlab_nightshift.stages.work.gateway_access import check_bounds
from gitlab_nightshift.stages.work.given_task import do_task
from gitlab_nightshift.stages.work.night import Night, try_categories
from gitlab_nightshift.stages.work.night_ending import Ending
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_search_path


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
