"""What every agent is asked and what it answers, whichever CLI it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gitlab_nightshift.host.process import Ended
from gitlab_nightshift.records import BeadStatus, Usage

TOOLS: dict[str, tuple[str, ...]] = {
    "analyze": ("Bash", "Read", "Write"),
    "implement": ("Bash", "Read", "Edit", "Write"),
    "verify": ("Bash", "Read", "Write"),
    "mr": ("Bash", "Read"),
}
"""The tools of each bead (contract, "Beads"); Write of Analyze and Verify is the hand-off's."""


@dataclass(frozen=True)
class BeadTask:
    """One bead, as an agent's CLI is asked for it. The prompt itself goes to stdin.

    ``base_url`` is the gateway's, without ``/v1``; "" where there is none.
    """

    bead: str
    category: str
    attempt: int
    model: str
    checkout: Path
    handoff_file: Path
    schema: dict[str, Any] | None
    allowed_commands: tuple[str, ...]
    budget_usd: float
    base_url: str = ""
    any_command: bool = False


@dataclass(frozen=True)
class Progress:
    """What a line of output tells: what is being done ("" for nothing new), usage so far.

    ``unusable`` is why the provider cannot be used at all, "" where it can: the bead is ended.
    """

    text: str = ""
    tokens: int | None = None
    unusable: str = ""


@dataclass(frozen=True)
class Report:
    """How a bead ended, from the CLI's own output. ``note`` is what has to be known of it beside
    that, "" for nothing: a progress line is one of many, and may not be told."""

    status: BeadStatus
    usage: Usage
    error: str = ""
    structured: object = None
    denied: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class About:
    """What an agent is, for a person who chooses one: its ``program`` ("": part of this package),
    its tools and who holds it to them, who checks the form of its answers, how cost is known."""

    program: str
    tools: str
    answer: str
    cost: str


class Reader(Protocol):
    """Reads one bead's output while it comes."""

    def line(self, raw: bytes) -> Progress | None:
        """What a line of stdout tells, None for nothing."""
        ...

    def report(self, ended: Ended, stderr: bytes) -> Report:
        """The end, from all lines seen, how the process ended and the last of stderr."""
        ...


class Provider(Protocol):
    """An agent: where its CLI is, how it is called, how its output is read."""

    @property
    def name(self) -> str:
        """The name in settings and results."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """Variables that hold its model key, by preference; the gateway takes the first set one."""
        ...

    @property
    def about(self) -> About:
        """What ``nightshift providers`` tells of it."""
        ...

    def direct(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Names in ``agent_env`` that let the agent reach a cloud without the gateway."""
        ...

    def check(self, env: Mapping[str, str]) -> None:
        """Raise ``E_PROVIDER_UNAVAILABLE`` or ``E_CONFIG`` where it cannot be used at all."""
        ...

    def settings_env(self) -> dict[str, str]:
        """Variables that it sets itself; never a secret."""
        ...

    def access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """Variables that lead it to the gateway."""
        ...

    def files(self, task: BeadTask) -> Mapping[str, str]:
        """Files that it needs beside the hand-off file: name → text."""
        ...

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The command of a bead, programs looked up on ``path``. No secret, no prompt in it."""
        ...

    def places(self, path: str) -> tuple[Path, ...]:
        """Files and folders that its process has to read: its own installation."""
        ...

    def reader(self) -> Reader:
        """A fresh reader for one bead's output."""
        ...
