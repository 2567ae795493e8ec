"""The interface of every agent: its task, its report, and how its output is read.

All output of an agent is hostile data: its lines may have any shape and size, and need not be JSON.
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
from gitlab_nightshift.records.usage import MOST_CALLS, ToolCall, Usage, build_tool_call, clean_line
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.untrusted_data import as_object, as_text, filter_objects, parse_json

TOOLS: dict[str, tuple[str, ...]] = {
    "analyze": ("Bash", "Read", "Write"),
    "implement": ("Bash", "Read", "Edit", "Write"),
    "verify": ("Bash", "Read", "Write"),
    "mr": ("Bash", "Read"),
}
"""The tools of each bead. Analyze and Verify change no file, but write their hand-off."""

STATUS_OF_END = {
    EndReason.IDLE: (BeadStatus.IDLE, "no output for too long"),
    EndReason.TIMEOUT: (BeadStatus.TIMEOUT, "took too long"),
    EndReason.OUTPUT_LIMIT: (BeadStatus.OUTPUT_LIMIT, "printed too much"),
}
"""Why this program ended an agent's process → the bead's status and its error."""
UNUSABLE_STATUSES = (401, 402, 403, 404, 429, 500, 502, 503, 504, 529)
"""HTTP statuses of a model endpoint that would not serve another bead either."""


@dataclass(frozen=True)
class BeadTask:
    """A bead's task for its agent, without the prompt, which goes to stdin.

    ``base_url`` is the gateway's, without ``/v1``; "" without a gateway. ``budget_tokens`` and
    ``left_s`` (seconds) are what is left of the run, None for no limit. With ``any_command``, the
    allowed commands limit nothing. The files in ``hidden`` are taken away while the agent works.
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
    """What a line of output tells. ``text`` is what the agent does, "" for nothing new; ``tokens``
    are those used so far, None if unknown. ``unusable`` is why the model endpoint cannot be used,
    which ends the bead; "" if it can."""

    text: str = ""
    tokens: int | None = None
    unusable: str = ""


@dataclass(frozen=True)
class BeadReport:
    """How a bead ended, by its process and the CLI's output.

    ``structured`` is the answer that the CLI gave as JSON, None without one. Of the agent's
    commands, the CLI did not allow those in ``denied``, and the program allowlist did not start
    those in ``refused``; ``missing`` are programs that a shell did not find. ``calls`` of tools are
    None if the CLI reports none. ``note`` is for the log, which may not show progress; "" for none.
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
class AgentInfo:
    """What ``nightshift providers`` shows of an agent. ``cli`` is its CLI's name, "" for a part of
    this package; ``tools``: its tools and what limits it to them; ``answer_checked_by``: who
    checks its answers against their schema; ``cost``: how its cost is known.

    ``report_by`` tells the model how to hand over its report, "" if it writes the file. Without
    ``runs_commands`` the model starts no process, so what the agent reports is trusted. With
    ``hides_secrets`` the checkout's secret files are taken away while it works."""

    cli: str
    tools: str
    answer_checked_by: str
    cost: str
    report_by: str = ""
    runs_commands: bool = True
    hides_secrets: bool = False


class OutputReader(Protocol):
    """Reads one bead's output as it arrives."""

    def read_line(self, raw: bytes) -> AgentProgress | None:
        """Read a line of stdout; None if it says nothing."""
        ...

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> BeadReport:
        """Judge the bead by all lines, how the process ended, and the end of its stderr."""
        ...


class AgentProvider(ABC):
    """Provides a coding agent (not a model): where its CLI is, how to call it, how to read its
    output.

    ``name`` is the one in settings and results. ``keys`` are variables that may hold its model key;
    the gateway takes the first that is set. ``info`` is what ``nightshift providers`` shows.
    """

    name: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ()
    info: ClassVar[AgentInfo]

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @abstractmethod
    def check(self, env: Mapping[str, str]) -> None:
        """Raise ``E_PROVIDER_UNAVAILABLE`` or ``E_CONFIG`` if the agent cannot be used at all."""

    def find_cloud_variables(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Names in ``agent_env`` that let the agent reach a cloud without the gateway."""
        return ()

    def build_settings_env(self) -> dict[str, str]:
        """Variables that configure the agent; never a secret."""
        return {}

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """Variables that point the agent to the gateway."""
        return {}

    def build_files(self, task: BeadTask) -> dict[str, str]:
        """Files that the agent needs beside the hand-off file: name → text."""
        return {}

    @abstractmethod
    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The command of a bead, without secrets or prompt; programs are looked up on ``path``."""

    def build_stdin(self, shared: str, rest: str) -> bytes:
        """The bytes for stdin: the prompt, which begins with what all beads share."""
        return (shared + rest).encode()

    @abstractmethod
    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """Files and folders of the agent's installation, which its process has to read."""

    @abstractmethod
    def build_reader(self) -> OutputReader:
        """A new reader for one bead's output."""


def check_program(name: str, package: str, env: Mapping[str, str]) -> None:
    """Raise ``E_PROVIDER_UNAVAILABLE`` if an agent's CLI is not on PATH."""
    if shutil.which(name, path=env.get("PATH")) is None:
        remedy = f"install {package} by npm, or set agent_executable"
        text = f"no agent CLI: {name} is not on PATH; {remedy}"
        raise NightshiftError(Code.PROVIDER_UNAVAILABLE, text)


def compute_command_s(settings: Settings) -> float:
    """Seconds that an agent may give a command: less than the silence that ends the bead."""
    return max(settings.idle_timeout * 0.9, 1.0)


def check_key(keys: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Raise ``E_PROVIDER_UNAVAILABLE`` if no variable holds a model key."""
    if not any(env.get(key) for key in keys):
        others = f" (or {', '.join(keys[1:])})" if keys[1:] else ""
        text = f"no model key: set {keys[0]} as a masked CI variable{others}"
        raise NightshiftError(Code.PROVIDER_UNAVAILABLE, text)


def find_program(name: str, path: str) -> Path:
    """The path of a program behind all links, as a sandbox may show the program without them."""
    return Path(shutil.which(name, path=path) or name).resolve()


def find_node_modules(program: Path) -> tuple[Path, ...]:
    """The outermost ``node_modules`` folder that contains a program, if any."""
    return tuple(folder for folder in program.parents if folder.name == "node_modules")[-1:]


# --- the CLI's output -----------------------------------------------------------------------------

LONGEST_OUTPUT = 4_000
"""Characters at the start and at the end of a command's output that are searched."""
LONGEST_OUTCOME = 120
"""Characters of a call's outcome, such as "exit status 1", and of a refused command."""
MOST_REFUSED, MOST_MISSING = 20, 10
LONGEST_PROGRESS = 160
"""Characters of a line of progress."""
LONGEST_QUOTE = 120
"""Characters of the agent's own words in such a line."""
_NOT_ALLOWED = compile_lazily(r"nightshift: not allowed: ([^;\n]{1,200})")
"""The program allowlist prints this for a command that it does not start."""
_PROGRAM = r"([\w.+-]{1,60})"
_NOT_FOUND = compile_lazily(
    # dash: "sh: 1: python3: not found"; bash: "/bin/bash: line 1: python3: command not found"
    rf"(?m)^(?:[\w./-]{{1,40}}: )?(?:line )?(?:\d{{1,6}}: )?{_PROGRAM}: (?:command )?not found\r?$"
    # zsh: "zsh: command not found: python3"
    rf"|^\w{{1,20}}: command not found: {_PROGRAM}\r?$"
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
    def _report_exit(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> BeadReport:
        """The report of a process that ended by itself."""

    def read_line(self, raw: bytes) -> AgentProgress | None:
        """Handle a line with a JSON object; count any other line."""
        event = parse_json(raw)
        if not isinstance(event, dict):
            if raw.strip():
                self._other_lines += 1
            return None
        self._json_lines += 1
        return self._handle_event(event)

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> BeadReport:
        """The report. Its status follows from why this program ended the process, or else from the
        process's output."""
        usage = self._read_usage()
        return replace(
            self._report_forced_end(ended, usage) or self._report_exit(ended, usage, stderr),
            last_message=self._last_message,
            calls=self._calls.list_calls(),
            refused=tuple(self._calls.refused),
            missing=tuple(self._calls.missing),
        )

    def _report_forced_end(self, ended: ProgramEnd, usage: Usage) -> BeadReport | None:
        if self._unusable:
            return BeadReport(BeadStatus.UNAVAILABLE, usage, self._unusable)
        if ended.end not in STATUS_OF_END:
            return None
        status, error = STATUS_OF_END[ended.end]
        # A CLI that waits for its endpoint is silent: the endpoint is at fault, not the agent.
        if self._failing_since and status in (BeadStatus.IDLE, BeadStatus.TIMEOUT):
            status, error = BeadStatus.UNAVAILABLE, "the model endpoint did not answer"
        return BeadReport(status, usage, error)

    def _report_missing_result(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> BeadReport:
        """The report of a process whose output does not tell how it ended."""
        last = (stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        if ended.exit_status == 0 or (self._other_lines and not self._json_lines):
            error = f"the agent printed no result (exit status {ended.exit_status}) {last}"
            return BeadReport(BeadStatus.BAD_OUTPUT, usage, error.strip())
        return BeadReport(
            BeadStatus.CRASHED, usage, f"the agent ended with {ended.how} {last}".strip()
        )

    def _measure_failing_s(self) -> float:
        """Seconds since the endpoint's first failure after a success."""
        self._failing_since = self._failing_since or read_clock()
        return read_clock() - self._failing_since


class ReportedCalls:
    """The first calls of a bead, as its CLI reports them. A result may come before its call,
    twice, or never. ``refused`` are commands that the program allowlist did not start, ``missing``
    programs that a shell did not find, both in order."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._outcomes: dict[str, str] = {}
        self.refused: dict[str, None] = {}
        self.missing: dict[str, None] = {}

    def add(self, call_id: object, tool: object, arguments: object) -> None:
        """Add a call; of two with the same id the first counts."""
        call = build_tool_call(tool, arguments, call_id)
        if len(self._calls) < MOST_CALLS:
            self._calls.setdefault(call.call_id, call)

    def finish(self, call_id: object, outcome: str, output: object, *, failed: bool) -> None:
        """Add a call's outcome, such as "exit status 1", and read its output."""
        # Cleaned like the id of its call, or the two would not match.
        cleaned_id = build_tool_call("", None, call_id).call_id
        if len(self._outcomes) < MOST_CALLS:
            self._outcomes.setdefault(cleaned_id, clean_line(outcome, LONGEST_OUTCOME))
        text = _join_output(output)
        for match in _NOT_ALLOWED.finditer(text[:LONGEST_OUTPUT]):
            if len(self.refused) < MOST_REFUSED:
                self.refused.setdefault(clean_line(match[1], LONGEST_OUTCOME))
        if failed:
            self._add_missing_programs(text)

    def list_calls(self) -> tuple[ToolCall, ...]:
        """The calls in order, with the outcomes that were reported."""
        return tuple(
            replace(call, reported=self._outcomes.get(call_id, ""))
            for call_id, call in self._calls.items()
        )

    def _add_missing_programs(self, output: str) -> None:
        """Add the programs that a shell did not find, by the start and the end of the output."""
        for text in dict.fromkeys((output[:LONGEST_OUTPUT], output[-LONGEST_OUTPUT:])):
            for match in _NOT_FOUND.finditer(text):
                if len(self.missing) < MOST_MISSING:
                    self.missing[match[1] or match[2]] = None


def _join_output(output: object) -> str:
    """A result's text, which may come in parts."""
    parts = filter_objects(output)[:20]
    return "\n".join(as_text(part.get("text")) for part in parts) if parts else as_text(output)


def describe_call(tool: object, arguments: object, keys: tuple[str, ...]) -> str:
    """A call as one short line: the tool, and the first argument that it has of ``keys``."""
    values = as_object(arguments)
    value = next((values[key] for key in keys if values.get(key)), "")
    text = " ".join(map(str, value)) if isinstance(value, list) else value
    return f"{tool} {text}"[:LONGEST_PROGRESS].strip()
