"""One file per agent, and the closed table of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.agents.base import Provider
from gitlab_nightshift.work.agents.claude_code import ClaudeCode
from gitlab_nightshift.work.agents.codex import Codex
from gitlab_nightshift.work.agents.patch import Patch
from gitlab_nightshift.work.agents.replay import Replay

PROVIDERS: dict[str, Callable[[Settings], Provider]] = {
    "claude_code": ClaudeCode,
    "codex": Codex,
    "patch": Patch,
    "replay": Replay,
}
AUTO = ("claude_code", "codex")
"""What ``auto`` tries: the first whose CLI and key are there."""


@dataclass(frozen=True)
class Choice:
    """The settings with an agent by its name; ``why`` is "" where the team has named it."""

    settings: Settings
    why: str = ""

    def __str__(self) -> str:
        """For the log."""
        return f"{self.settings.agent}{f' ({self.why})' if self.why else ''}"


def chosen(settings: Settings, env: Mapping[str, str]) -> Choice:
    """Which agent ``auto`` is in this environment: where there is none, the first, whose ``check``
    then says what is missing."""
    if settings.agent != "auto":
        return Choice(settings.for_agent(settings.agent))
    missing: list[str] = []
    for name in AUTO:
        try:
            PROVIDERS[name](settings).check(env)
        except NightshiftError as error:
            missing.append(f"; not {name}: {error.message.partition(';')[0]}")
        else:
            return Choice(settings.for_agent(name), f"auto{''.join(missing)}")
    return Choice(settings.for_agent(AUTO[0]), f"auto{''.join(missing)}")


def provider_of(settings: Settings) -> Provider:
    """The provider that the settings name, after :func:`chosen`."""
    return PROVIDERS[settings.agent](settings)
