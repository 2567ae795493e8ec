"""The interface of every agent: what it is asked, and what it answers."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.tool_calls import ToolCall
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.settings.model import Settings

TOOLS: dict[str, tuple[str, ...]] = {
    "analyze": ("Bash", "Read", "Write"),
    "implement": ("Bash", "Read", "Edit", "Write"),
    "verify": ("Bash", "Read", "Write"),
    "mr": ("Bash", "Read"),
}
"""The tools of each bead (contract, "Beads"). Analyze and Verify need Write for the hand-off."""

STATUS_OF_END = {
    EndReason.IDLE: (BeadStatus.IDLE, "no output for too long"),
    EndReason.TIMEOUT: (BeadStatus.TIMEOUT, "took too long"),
    EndReason.OUTPUT_LIMIT: (BeadStatus.OUTPUT_LIMIT, "printed too much"),
}
"""What is reported of a process that this program has ended."""
UNUSABLE_STATUSES = (401, 402, 403, 404, 429, 500, 502, 503, 504, 529)
"""HTTP statuses of a model endpoint that would not serve another bead either."""


@dataclass(frozen=True)
class BeadTask:
    """One bead, as an agent's CLI gets it. The prompt itself goes to stdin.

    ``base_url`` is the gateway's, without ``/v1``; "" without a gateway. ``budget_tokens`` and
    ``left_s`` (seconds) are what is left of the run, None for no limit. ``hidden`` are files that
    are taken away while it works.
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
    """What a line of output says: what the agent does ("" for nothing new), and usage so far.

    ``unusable`` is why the provider cannot be used at all, "" if it can; it ends the bead.
    """

    text: str = ""
    tokens: int | None = None
    unusable: str = ""


@dataclass(frozen=True)
class Report:
    """How a bead ended, from the CLI's own output.

    ``note`` is for the log, "" for none: progress lines are many, and may not be logged. By the
    CLI's word alone: ``last_message`` of the agent, ``calls`` of tools (None: it reports none),
    commands that were ``refused``, and those that a shell found ``missing``.
    """

    status: BeadStatus
    usage: Usage
    error: str = ""
    structured: object = None
    denied: tuple[str, ...] = ()
    note: str = ""
    last_message: str = ""
    missing: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] | None = None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProviderInfo:
    """What an agent is, for a person who chooses one: its ``program`` ("": part of this package),
    its tools and what limits it to them, who checks the form of its answers, how cost is known.

    ``report_by`` tells the model how to hand over its report, "" if it writes the file. Without
    ``runs_commands`` the model starts no process, so what the agent reports is trusted. With
    ``hides_secrets`` the checkout's secret files are taken away while it works."""

    program: str
    tools: str
    answer: str
    cost: str
    report_by: str = ""
    runs_commands: bool = True
    hides_secrets: bool = False


class OutputReader(Protocol):
    """Reads one bead's output as it arrives."""

    def read_line(self, raw: bytes) -> AgentProgress | None:
        """Read a line of stdout; None if it says nothing."""
        ...

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> Report:
        """Judge the bead by all lines, how the process ended, and the end of stderr."""
        ...


class Provider(ABC):
    """An agent: where its CLI is, how to call it, how to read its output.

    ``name`` is the one in settings and results. ``keys`` are variables that may hold its model key;
    the gateway takes the first that is set. ``about`` is what ``nightshift providers`` shows.
    """

    name: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ()
    about: ClassVar[ProviderInfo]

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @abstractmethod
    def check(self, env: Mapping[str, str]) -> None:
        """Raise ``E_PROVIDER_UNAVAILABLE`` or ``E_CONFIG`` if it cannot be used at all."""

    def find_cloud_variables(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Names in ``agent_env`` that let the agent reach a cloud without the gateway."""
        return ()

    def build_settings_env(self) -> dict[str, str]:
        """Variables that configure it; never a secret."""
        return {}

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """Variables that point it to the gateway."""
        return {}

    def build_files(self, task: BeadTask) -> dict[str, str]:
        """Files that it needs beside the hand-off file: name → text."""
        return {}

    @abstractmethod
    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The command of a bead, without secrets or prompt; programs are looked up on ``path``."""

    def build_stdin(self, shared: str, rest: str) -> bytes:
        """What it reads on stdin: the prompt, in the part that all beads share and the rest."""
        return (shared + rest).encode()

    @abstractmethod
    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """Files and folders of its own installation, which its process has to read."""

    @abstractmethod
    def build_reader(self) -> OutputReader:
        """A new reader for one bead's output."""


def check_program(name: str, package: str, env: Mapping[str, str]) -> None:
    """Raise ``E_PROVIDER_UNAVAILABLE`` if an agent's CLI is not on PATH."""
    if shutil.which(name, path=env.get("PATH")) is None:
        text = f"no agent CLI: {name} is not on PATH; install {package} by npm, or set"
        raise NightshiftError(Code.PROVIDER_UNAVAILABLE, f"{text} agent_executable")


def check_key(keys: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Raise ``E_PROVIDER_UNAVAILABLE`` if no variable holds a model key."""
    if not any(env.get(key) for key in keys):
        others = f" (or {', '.join(keys[1:])})" if keys[1:] else ""
        text = f"no model key: set {keys[0]} as a masked CI variable{others}"
        raise NightshiftError(Code.PROVIDER_UNAVAILABLE, text)


def find_program(name: str, path: str) -> Path:
    """The program itself: a sandbox may not show a link to it."""
    return Path(shutil.which(name, path=path) or name).resolve()
