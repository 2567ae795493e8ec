"""The agents: the facts about each that are needed before its module is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AgentEntry:
    """One agent. ``provider`` is its class (``module:class``), an ``AgentProvider`` of
    ``agents/agent.py``. ``models`` are its default models by bead, where they differ from those of
    the settings; "" is no default. ``auto``: the setting ``agent: auto`` tries it, in the order of
    the table; with ``needs_endpoint`` only if an endpoint is set. ``on_request``: comments and
    chats may ask for it."""

    provider: str
    models: Mapping[str, str] = field(default_factory=dict)
    auto: bool = False
    needs_endpoint: bool = False
    on_request: bool = True


_NO_DEFAULT_MODELS = {"analyze": "", "implement": "", "verify": "", "mr": ""}

AGENTS: dict[str, AgentEntry] = {
    "claude_code": AgentEntry("gitlab_nightshift.agents.claude_code:ClaudeCode", auto=True),
    "codex": AgentEntry(
        "gitlab_nightshift.agents.codex:Codex",
        dict.fromkeys(("analyze", "implement", "verify"), "gpt-6.1-sol") | {"mr": "gpt-6-luna"},
        auto=True,
    ),
    # A plain endpoint has models of its own: the settings have to name one.
    "model": AgentEntry(
        "gitlab_nightshift.agents.plain_model:Model",
        _NO_DEFAULT_MODELS,
        auto=True,
        needs_endpoint=True,
    ),
    "patch": AgentEntry("gitlab_nightshift.agents.plain_model:Patch", _NO_DEFAULT_MODELS),
    # It needs a recording on the runner's disk, which no comment can name.
    "replay": AgentEntry("gitlab_nightshift.agents.replay:Replay", on_request=False),
}


def list_agent_names() -> tuple[str, ...]:
    """The values of the setting ``agent``."""
    return ("auto", *AGENTS)


def list_requestable_agents() -> tuple[str, ...]:
    """The agents that a comment or a chat may ask for."""
    return ("auto", *(name for name, entry in AGENTS.items() if entry.on_request))


def list_auto_agents() -> tuple[str, ...]:
    """The agents that ``auto`` tries in order, until the CLI and key of one are available."""
    return tuple(name for name, entry in AGENTS.items() if entry.auto)
