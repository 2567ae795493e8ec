"""The agents, one entry each: all that is known of one before it is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AgentEntry:
    """``provider`` is where its class is (module:class, with the members of
    ``agents/agent.py: Provider``). ``models`` are its default models by bead, where they are not
    those of the settings; "" has none. ``auto`` says that the setting ``auto`` tries it, in this
    order, with ``own_endpoint`` only where the team has named one; ``on_request`` that a comment or
    a chat may name it."""

    provider: str
    models: Mapping[str, str] = field(default_factory=dict)
    auto: bool = False
    own_endpoint: bool = False
    on_request: bool = True


_NO_MODELS = {"analyze": "", "implement": "", "verify": "", "mr": ""}

AGENTS: dict[str, AgentEntry] = {
    "claude_code": AgentEntry("gitlab_nightshift.agents.claude_code:ClaudeCode", auto=True),
    "codex": AgentEntry(
        "gitlab_nightshift.agents.codex:Codex",
        {
            **{"analyze": "gpt-6.1-sol", "implement": "gpt-6.1-sol", "verify": "gpt-6.1-sol"},
            "mr": "gpt-6-luna",
        },
        auto=True,
    ),
    # A plain endpoint has models of its own: the agent asks for their names.
    "model": AgentEntry(
        "gitlab_nightshift.agents.plain_model:Model", _NO_MODELS, auto=True, own_endpoint=True
    ),
    "patch": AgentEntry("gitlab_nightshift.agents.plain_model:Patch", _NO_MODELS),
    "replay": AgentEntry("gitlab_nightshift.agents.replay:Replay", on_request=False),
}


def list_agent_names() -> tuple[str, ...]:
    """What the setting ``agent`` may be."""
    return ("auto", *AGENTS)


def list_requestable_agents() -> tuple[str, ...]:
    """What a comment or a chat may ask for."""
    return ("auto", *(name for name, entry in AGENTS.items() if entry.on_request))


def list_auto_agents() -> tuple[str, ...]:
    """What ``auto`` tries: the first whose CLI and key are there."""
    return tuple(name for name, entry in AGENTS.items() if entry.auto)
