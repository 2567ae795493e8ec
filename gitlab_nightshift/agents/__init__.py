"""One file per agent; ``registry/agent_registry.py`` has the list of them."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from gitlab_nightshift.agents.agent import Provider
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.registry.agent_registry import AGENTS, list_auto_agents
from gitlab_nightshift.settings.model import Settings

ENDPOINT = "OPENAI_BASE_URL"


@dataclass(frozen=True)
class Choice:
    """The settings with a real agent's name; ``why`` is "" if the team has named it."""

    settings: Settings
    why: str = ""

    def __str__(self) -> str:
        """For the log."""
        return f"{self.settings.agent}{f' ({self.why})' if self.why else ''}"


def choose_agent(settings: Settings, env: Mapping[str, str]) -> Choice:
    """Choose what ``auto`` means in this environment. If no agent can be used, it is the first one,
    whose ``check`` then says what is missing."""
    if settings.agent != "auto":
        return Choice(settings.with_agent(settings.agent))
    missing: list[str] = []
    candidates = list_auto_agents()
    for name in candidates:
        if AGENTS[name].own_endpoint and not (settings.model_endpoint or env.get(ENDPOINT)):
            continue
        try:
            build_agent(name, settings.with_agent(name)).check(env)
        except NightshiftError as error:
            # Only what is wrong; how to fix it follows after the semicolon.
            missing.append(f"; not {name}: {error.message.partition(';')[0]}")
        else:
            return Choice(settings.with_agent(name), f"auto{''.join(missing)}")
    return Choice(settings.with_agent(candidates[0]), f"auto{''.join(missing)}")


def build_provider(settings: Settings) -> Provider:
    """The provider that the settings name, after :func:`choose_agent`."""
    return build_agent(settings.agent, settings)


def build_agent(name: str, settings: Settings) -> Provider:
    """The provider of an agent by its name. Only this agent's module is loaded."""
    module, _, kind = AGENTS[name].provider.partition(":")
    provider: Provider = getattr(importlib.import_module(module), kind)(settings)
    return provider
