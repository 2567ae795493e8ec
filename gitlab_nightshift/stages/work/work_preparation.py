"""Preparation before the first model request: the provider, its program, the templates."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.agents.agent import BeadTask, Provider
from gitlab_nightshift.registry.categories import TASK
from gitlab_nightshift.stages.work.cost_bounds import check_bounds
from gitlab_nightshift.stages.work.prompt_preview import load_templates
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
