"""One file per agent, and the closed table of them."""

from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.agents.base import Provider
from gitlab_nightshift.work.agents.claude_code import ClaudeCode
from gitlab_nightshift.work.agents.replay import Replay

PROVIDERS: dict[str, type[ClaudeCode] | type[Replay]] = {
    "auto": ClaudeCode,
    "claude_code": ClaudeCode,
    "replay": Replay,
}


def provider_of(settings: Settings) -> Provider:
    """The provider that the settings name."""
    return PROVIDERS[settings.agent](settings)
