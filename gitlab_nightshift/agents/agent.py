"""The interface of every agent, whichever CLI it is: what it is asked and what it answers."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.tool_calls import ToolCall
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd

TOOLS: dict[str, tuple[str, ...]] = {
    "analyze": ("Bash", "Read", "Write"),
    "implement": ("Bash", "Read", "Edit", "Write"),
    "verify": ("Bash", "Read", "Write"),
    "mr": ("Bash", "Read"),
}
"""The tools of each bead (contract, "Beads"); Write of Analyze and Verify is the hand-off's."""

STATUS_OF_END = {
    EndReason.IDLE: (BeadStatus.IDLE, "no output for too long"),
    EndReason.TIMEOUT: (BeadStatus.TIMEOUT, "took too long"),
    EndReason.OUTPUT_LIMIT: (BeadStatus.OUTPUT_LIMIT, "printed too much"),
}
"""What is reported of a process that this program has ended."""
UNUSABLE_STATUSES = (401, 402, 403, 404, 429, 500, 502, 503, 504, 529)
"""A model endpoint that answers so would not serve another bead either."""


@dataclass(frozen=True)
class BeadTask:
    """One bead, as it is given to an agent's CLI. The prompt itself goes to stdin.

    ``base_url`` is the gateway's, without ``/v1``; "" where there is none. ``budget_tokens`` and
    ``left_s`` (seconds) are what is left of the run, None for no limit. ``hidden`` are files that
    are not there while it works.
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
    budget_tokens: int | None = None
    left_s: float | None = None
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class AgentProgress:
    """What a line of output says: what is being done ("" for nothing new), usage so far.

    ``unusable`` is why the provider cannot be used at all, "" where it can: the bead is ended.
    """

    text: str = ""
    tokens: int | None = None
    unusable: str = ""


@dataclass(frozen=True)
class Report:
    """How a bead ended, from the CLI's own output. ``note`` is what else has to be known of it, ""
    for nothing: a progress line is one of many, and may not be logged. ``said`` is the agent's own
    last word. The CLI reports ``calls``, the tools that were called (None: it reports none),
    ``refused``, commands that were not started, and ``missing``, those that a shell has not found.
    """

    status: BeadStatus
    usage: Usage
    error: str = ""
    structured: object = None
    denied: tuple[str, ...] = ()
    note: str = ""
    said: str = ""
    missing: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] | None = None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProviderInfo:
    """What an agent is, for a person who chooses one: its ``program`` ("": part of this package),
    its tools and what limits it to them, who checks the form of its answers, how cost is known.

    ``report_by`` tells the model how it hands its report over, "" where it writes the file. Without
    ``runs_commands`` no process of the model's runs, so what the agent reports is trusted. With
    ``hides_secrets`` the checkout's files of secrets are away while it works."""

    program: str
    tools: str
    answer: str
    cost: str
    report_by: str = ""
    runs_commands: bool = True
    hides_secrets: bool = False


class OutputReader(Protocol):
    """Reads one bead's output while it comes."""

    def read_line(self, raw: bytes) -> AgentProgress | None:
        """What a line of stdout says, None for nothing."""
        ...

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> Report:
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
    def about(self) -> ProviderInfo:
        """What ``nightshift providers`` says of it."""
        ...

    def find_cloud_variables(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Names in ``agent_env`` that let the agent use a cloud without the gateway."""
        ...

    def check(self, env: Mapping[str, str]) -> None:
        """Raise ``E_PROVIDER_UNAVAILABLE`` or ``E_CONFIG`` where it cannot be used at all."""
        ...

    def build_settings_env(self) -> dict[str, str]:
        """Variables that it sets itself; never a secret."""
        ...

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """Variables that point it to the gateway."""
        ...

    def build_files(self, task: BeadTask) -> Mapping[str, str]:
        """Files that it needs besides the hand-off file: name → text."""
        ...

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The command of a bead, programs looked up on ``path``. No secret, no prompt in it."""
        ...

    def build_stdin(self, shared: str, rest: str) -> bytes:
        """What it gets on stdin: a prompt, in the part that all beads share and the rest."""
        ...

    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """Files and folders that its process has to read: its own installation."""
        ...

    def build_reader(self) -> OutputReader:
        """A fresh reader for one bead's output."""
        ...


def check_program(name: str, package: str, env: Mapping[str, str]) -> None:
    """Raise ``E_PROVIDER_UNAVAILABLE`` where an agent's CLI is not on PATH."""
    if shutil.which(name, path=env.get("PATH")) is None:
        text = f"no agent CLI: {name} is not on PATH; install {package} by npm, or set"
        raise NightshiftError(Code.PROVIDER_UNAVAILABLE, f"{text} agent_executable")
