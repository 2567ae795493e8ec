"""The interface of every agent: its task, its report, and how its output is read.

Every line that an agent prints is hostile data: of any shape, of any size, perhaps no JSON at all.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.tool_calls import MOST_CALLS, ToolCall, build_tool_call, clean_line
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.text.json_parts import as_object, as_text, filter_objects, parse_json
from gitlab_nightshift.text.lazy_patterns import compile_lazily

TOOLS: dict[str, tuple[str, ...]] = {
    "analyze": ("Bash", "Read", "Write"),
    "implement": ("Bash", "Read", "Edit", "Write"),
    "verify": ("Bash", "Read", "Write"),
    "mr": ("Bash", "Read"),
}
"""The tools of each bead. Analyze and Verify need Write for the hand-off."""

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
    """How a bead ended, by the CLI's own output.

    ``note`` is for the log, "" for none: progress lines are many, and may not be logged. Only the
    CLI reports: ``last_message`` of the agent, ``calls`` of tools (None: it reports none),
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


def find_node_modules(program: Path) -> tuple[Path, ...]:
    """The outermost ``node_modules`` folder that contains a program, if any."""
    return tuple(folder for folder in program.parents if folder.name == "node_modules")[-1:]


# --- what it prints -------------------------------------------------------------------------------

LONGEST_OUTPUT, MOST_REFUSED, LONGEST_RESULT = 4_000, 20, 120
MOST_MISSING = 10
_NOT_ALLOWED = compile_lazily(r"nightshift: not allowed: ([^;\n]{1,200})")
"""What the program allowlist says of a command that it does not start."""
_NAME = r"([\w.+-]{1,60})"
_NOT_FOUND = compile_lazily(
    # dash: "sh: 1: python3: not found"; bash: "/bin/bash: line 1: python3: command not found"
    rf"(?m)^(?:[\w./-]{{1,40}}: )?(?:line )?(?:\d{{1,6}}: )?{_NAME}: (?:command )?not found\r?$"
    # zsh: "zsh: command not found: python3"
    rf"|^\w{{1,20}}: command not found: {_NAME}\r?$"
)


class OutputLineReader(ABC):
    """Reads one bead's events and keeps of them only what the report needs.

    ``patience_s``: seconds for which the endpoint may fail without a break.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s, self._failing_since = patience_s, 0.0
        self._unusable = self._last_message = ""
        self._json_lines = self._other_lines = 0
        self._calls = ReportedCalls()

    @abstractmethod
    def _handle_event(self, event: dict[str, Any]) -> AgentProgress | None: ...

    @abstractmethod
    def _read_usage(self) -> Usage: ...

    @abstractmethod
    def _report_own_end(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> Report:
        """How the process itself says it ended."""

    def read_line(self, raw: bytes) -> AgentProgress | None:
        """One JSON line; a line that is not JSON is counted."""
        event = parse_json(raw)
        if not isinstance(event, dict):
            self._other_lines += bool(raw.strip())
            return None
        self._json_lines += 1
        return self._handle_event(event)

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> Report:
        """The status: what this program did to the process first, then what the process says."""
        usage = self._read_usage()
        return replace(
            self._report_stop(ended, usage) or self._report_own_end(ended, usage, stderr),
            last_message=self._last_message,
            calls=self._calls.list_calls(),
            refused=tuple(self._calls.refused),
            missing=tuple(self._calls.missing),
        )

    def _report_stop(self, ended: ProgramEnd, usage: Usage) -> Report | None:
        if self._unusable:
            return Report(BeadStatus.UNAVAILABLE, usage, self._unusable)
        if ended.end not in STATUS_OF_END:
            return None
        status, error = STATUS_OF_END[ended.end]
        # A CLI that waits for its endpoint is silent: the endpoint is at fault, not the agent.
        if self._failing_since and status in (BeadStatus.IDLE, BeadStatus.TIMEOUT):
            status, error = BeadStatus.UNAVAILABLE, "the model endpoint did not answer"
        return Report(status, usage, error)

    def _report_missing_end(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> Report:
        """How a process ended that did not say so itself."""
        last = (stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        if ended.exit_status == 0 or (self._other_lines and not self._json_lines):
            error = f"the agent printed no result (exit status {ended.exit_status}) {last}"
            return Report(BeadStatus.BAD_OUTPUT, usage, error.strip())
        return Report(BeadStatus.CRASHED, usage, f"the agent ended with {ended.how} {last}".strip())

    def _measure_failing(self) -> float:
        """Seconds since the endpoint's first failure after a success."""
        self._failing_since = self._failing_since or read_clock()
        return read_clock() - self._failing_since


class ReportedCalls:
    """The first calls of a bead, as its CLI reports them. A result may come before its call,
    twice, or never. ``refused`` are commands that the program allowlist did not start, ``missing``
    those that a shell did not find, both in order."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, str] = {}
        self.refused: dict[str, None] = {}
        self.missing: dict[str, None] = {}

    def add(self, call_id: object, tool: object, arguments: object) -> None:
        """Add a call; of two with the same id the first counts."""
        call = build_tool_call(tool, arguments, call_id)
        if len(self._calls) < MOST_CALLS:
            self._calls.setdefault(call.call_id, call)

    def finish(self, call_id: object, result: str, output: object, *, failed: bool) -> None:
        """Add a call's result in a word, and its output."""
        # Cleaned like the id of its call, or the two would not match.
        name = build_tool_call("", None, call_id).call_id
        if len(self._results) < MOST_CALLS:
            self._results.setdefault(name, clean_line(result, LONGEST_RESULT))
        text = _join_output(output)
        for match in _NOT_ALLOWED.finditer(text[:LONGEST_OUTPUT]):
            if len(self.refused) < MOST_REFUSED:
                self.refused.setdefault(clean_line(match[1], LONGEST_RESULT))
        if failed:
            self._find_missing(text)

    def list_calls(self) -> tuple[ToolCall, ...]:
        """The calls in order, with the results that came."""
        found = self._calls.items()
        return tuple(replace(call, reported=self._results.get(name, "")) for name, call in found)

    def _find_missing(self, output: str) -> None:
        """Search the start and the end of a failed command's output."""
        for text in dict.fromkeys((output[:LONGEST_OUTPUT], output[-LONGEST_OUTPUT:])):
            for found in _NOT_FOUND.finditer(text):
                if len(self.missing) < MOST_MISSING:
                    self.missing[found[1] or found[2]] = None


def _join_output(output: object) -> str:
    """A result's text, which may come in parts."""
    parts = filter_objects(output)[:20]
    return "\n".join(as_text(part.get("text")) for part in parts) if parts else as_text(output)


def describe_call(tool: object, arguments: object, keys: tuple[str, ...]) -> str:
    """A call as one short line: the tool, and the first of these arguments that it has."""
    rows = as_object(arguments)
    subject = next((rows[key] for key in keys if rows.get(key)), "")
    words = " ".join(map(str, subject)) if isinstance(subject, list) else subject
    return f"{tool} {words}"[:160].strip()
