"""Reads what an agent's process prints: JSON lines, and the tool calls that it reports.

Every line is hostile data: of any shape, of any size, perhaps no JSON at all.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from gitlab_nightshift.agents.agent import STATUS_OF_END, AgentProgress, Report
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.tool_calls import MOST_CALLS, ToolCall, build_tool_call, clean_line
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.text.json_parts import as_object, as_objects, as_text, parse_json
from gitlab_nightshift.text.lazy_patterns import compile_lazily

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
    """The first calls of a bead, by the word of its CLI alone. A result may come before its call,
    twice, or never. ``refused`` are commands that the program allowlist did not start, ``missing``
    those that a shell did not find, both in order."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, str] = {}
        self.refused: dict[str, None] = {}
        self.missing: dict[str, None] = {}

    def add(self, call_id: object, tool: object, given: object) -> None:
        """Add a call; of two with the same id the first counts."""
        call = build_tool_call(tool, given, call_id)
        if len(self._calls) < MOST_CALLS:
            self._calls.setdefault(call.call_id, call)

    def finish(self, call_id: object, result: str, output: object, *, failed: bool) -> None:
        """Add a call's result, in a word, and what it printed."""
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
    parts = as_objects(output)[:20]
    return "\n".join(as_text(part.get("text")) for part in parts) if parts else as_text(output)


def describe_call(tool: object, given: object, keys: tuple[str, ...]) -> str:
    """A call as one short line: the tool, and the first of these arguments that it has."""
    rows = as_object(given)
    subject = next((rows[key] for key in keys if rows.get(key)), "")
    words = " ".join(map(str, subject)) if isinstance(subject, list) else subject
    return f"{tool} {words}"[:160].strip()
