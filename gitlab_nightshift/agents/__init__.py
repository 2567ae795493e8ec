"""Chooses and builds the agent that the settings name. Each agent has a module in this folder;
``registry/agent_registry.py`` lists them."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from gitlab_nightshift.agents.agent import AgentProvider
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.registry.agent_registry import AGENTS, list_auto_agents
from gitlab_nightshift.settings.model import Settings

ENDPOINT_VARIABLE = "OPENAI_BASE_URL"


@dataclass(frozen=True)
class AgentChoice:
    """The settings with the name of an agent in place of ``auto``. ``why`` explains the choice, ""
    if the team has named the agent."""

    settings: Settings
    why: str = ""

    def __str__(self) -> str:
        """The choice as a line of the log."""
        return f"{self.settings.agent}{f' ({self.why})' if self.why else ''}"


def choose_agent(settings: Settings, env: Mapping[str, str]) -> AgentChoice:
    """Choose the first agent that can be used in this environment, if the settings say ``auto``.
    If none can, choose the first of all: its ``check`` then says what is missing."""
    if settings.agent != "auto":
        return AgentChoice(settings.with_agent(settings.agent))
    why, candidates = "auto", list_auto_agents()
    has_endpoint = bool(settings.model_endpoint or env.get(ENDPOINT_VARIABLE))
    for name in candidates:
        if AGENTS[name].needs_endpoint and not has_endpoint:
            continue
        try:
            load_provider(name, settings.with_agent(name)).check(env)
        except NightshiftError as error:
            # Only what is wrong; how to fix it follows after the semicolon.
            why += f"; not {name}: {error.message.partition(';')[0]}"
        else:
            return AgentChoice(settings.with_agent(name), why)
    return AgentChoice(settings.with_agent(candidates[0]), why)


def build_provider(settings: Settings) -> AgentProvider:
    """The provider that the settings name, after :func:`choose_agent`."""
    return load_provider(settings.agent, settings)


def load_provider(name: str, settings: Settings) -> AgentProvider:
    """The provider of an agent by its name. Only this agent's module is loaded."""
    module, _, class_name = AGENTS[name].provider.partition(":")
    provider: AgentProvider = getattr(importlib.import_module(module), class_name)(settings)
    return provider
