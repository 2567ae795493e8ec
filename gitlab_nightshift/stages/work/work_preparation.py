"""What is made ready before the first model request: the provider, its program, the templates."""

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
    """What is prepared before the first model request: the provider and the templates."""

    provider: Provider
    templates: Mapping[str, str]


def prepare(place: WorkContext) -> Tools:
    """Check all that can be known beforehand: templates, commands, the agent's CLI and key.

    Raises :class:`NightshiftError` (``E_CONFIG``, ``E_PROVIDER_UNAVAILABLE``).
    """
    templates = load_templates(place)
    provider = build_provider(place.settings)
    env = {**place.model_env, **place.search_env}
    provider.check(env)
    check_bounds(place.settings, provider, env)
    return Tools(provider, templates)


def find_agent_program(place: WorkContext, provider: Provider) -> Path:
    """The program that a bead would start."""
    asked = BeadTask(
        bead="verify",
        category=TASK,
        attempt=1,
        model=place.settings.models.verify,
        checkout=place.checkout,
        handoff_file=place.private / "handoff.json",
        schema=None,
        allowed_commands=(),
        budget_usd=1.0,
    )
    path = build_search_path(place.env, place.checkout)
    return Path(provider.build_bead_args(asked, path)[0])
