"""The agents, one entry each: what is known before an agent's module is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AgentEntry:
    """``provider`` is its class (``module:class``), a ``Provider`` of ``agents/agent.py``.
    ``models`` are default models by bead that differ from those of the settings; "" is no default.
    ``auto``: the setting ``auto`` tries it, in this order; ``on_request``: comments and chats may
    ask for it."""

    provider: str
    models: Mapping[str, str] = field(default_factory=dict)
    auto: bool = False
    on_request: bool = True


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
    # A plain endpoint has its own models: the agent requires their names.
    "patch": AgentEntry(
        "gitlab_nightshift.agents.plain_model:Patch",
        {"analyze": "", "implement": "", "verify": "", "mr": ""},
    ),
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
