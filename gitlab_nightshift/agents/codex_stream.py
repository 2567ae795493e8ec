"""What ``codex exec --json`` prints, read into progress and a report.

Every line is hostile data: of any shape, of any size, perhaps no JSON at all.
"""

import json
import re
from typing import Any

from gitlab_nightshift.agents.agent import UNUSABLE_STATUSES, AgentProgress, Report
from gitlab_nightshift.agents.json_stream import JsonStreamReader
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.events import format_elapsed
from gitlab_nightshift.records.tool_calls import unwrap_command
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.text.lazy_patterns import compile_lazily

MOST = 10**12
"""Larger figures are none of a bead."""
LONGEST = 500
UNUSABLE_CODES = {
    "billing_hard_limit_reached",
    "insufficient_quota",
    "invalid_api_key",
    "model_not_found",
    "rate_limit_exceeded",
    "unsupported_model",
}
_STATUS = compile_lazily(r"(?:unexpected|last) status:? (\d{3})\b")
_NO_ANSWER = compile_lazily(
    r"(?i)experiencing high demand|connection failed|stream disconnected|error sending request"
    r"|usage limit|quota exceeded|at capacity"
)
"""How the CLI describes an endpoint that fails, where it names no status."""
_NOT_STARTED = compile_lazily(
    r"bwrap: |error building bubblewrap command|codex-linux-sandbox|Failed to create unified exec"
)
"""The CLI's own sandbox, or the system, did not let a command begin."""


class CodexStreamReader(JsonStreamReader):
    """The reader of one bead's events."""

    def __init__(self, patience_s: float) -> None:
        super().__init__(patience_s)
        self._asked = self._ended = False
        self._failure = ""
        self._tokens = 0
        self._commands = self._not_started = 0
        self._why_not_started = ""

    def _handle_event(self, event: dict[str, Any]) -> AgentProgress | None:
        kind, item = event.get("type"), event.get("item")
        if kind == "turn.started":
            self._asked, self._ended = True, False
        if kind == "error":
            return self._handle_retry(_read_text(event.get("message")))
        if kind == "turn.failed":
            self._failure = _read_message(event.get("error")) or "it gave no reason"
        if kind == "turn.completed":
            return self._handle_completion(event.get("usage"))
        if kind in ("item.started", "item.completed") and isinstance(item, dict):
            return self._handle_item(item, done=kind == "item.completed")
        return None

    def _report_own_end(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> Report:
        if self._failure:
            return Report(_classify_failure(self._failure), usage, _describe_failure(self._failure))
        if not self._ended or ended.exit_status != 0:
            return self._report_missing_end(ended, usage, stderr)
        if self._commands and self._not_started == self._commands:
            error = f"no command could be started: {self._why_not_started}"
            return Report(BeadStatus.CRASHED, usage, error)
        return Report(BeadStatus.OK, usage, "", _parse_structured(self._said))

    def _handle_retry(self, message: str) -> AgentProgress | None:
        """The CLI tries again, or gives up: then ``turn.failed`` follows with the same text, or the
        turn is over already."""
        if self._ended:
            self._failure = self._failure or message or "it gave no reason"
        if not message.startswith("Reconnecting"):
            return None
        failing_s = self._measure_failing()
        status = _find_http_status(message)
        answer = f"answers {status}" if status else "does not answer"
        if failing_s >= self._patience_s:
            self._unusable = f"the model endpoint {answer} for {format_elapsed(failing_s)}"
        text = f"the model endpoint {answer}; the CLI tries again"
        return AgentProgress(text, unusable=self._unusable)

    def _handle_completion(self, usage: object) -> AgentProgress:
        """The tokens of the whole turn. Cached tokens are part of the input, reasoning tokens are
        part of the output."""
        self._ended = True
        parts = usage if isinstance(usage, dict) else {}
        self._tokens += _read_number(parts.get("input_tokens")) + _read_number(
            parts.get("output_tokens")
        )
        return AgentProgress(tokens=self._tokens)

    def _handle_item(self, item: dict[str, Any], *, done: bool) -> AgentProgress | None:
        kind = item.get("type")
        if kind != "error":
            self._failing_since = 0.0
        if kind == "agent_message" and done:
            self._said = _read_text(item.get("text"))
        if done and kind in ("command_execution", "file_change"):
            if kind == "command_execution":
                self._count(item)
            return None  # it was reported when it started
        text = _describe_activity(item)
        return AgentProgress(text) if text else None

    def _count(self, command: dict[str, Any]) -> None:
        """Only the commands show that the sandbox is broken: the exit status is 0 all the same."""
        self._commands += 1
        name, status = command.get("id"), command.get("exit_code")
        self._calls.add(name, "command", command)
        how = f"exit status {status}" if type(status) is int else "no exit status"
        self._calls.finish(name, how, command.get("aggregated_output"), failed=status != 0)
        output = _read_text(command.get("aggregated_output"))
        if command.get("exit_code") != 0 and _NOT_STARTED.match(output.lstrip()):
            self._not_started += 1
            self._why_not_started = _take_first_line(output)

    def _read_usage(self) -> Usage:
        """No dollars: the CLI knows no prices. It reports tokens at the end only."""
        if not self._asked:
            return Usage()
        return Usage(None, self._tokens if self._ended else None)


def _classify_failure(failure: str) -> BeadStatus:
    """Whether a failed turn is the endpoint's fault, so that no other bead could do better."""
    unusable = (
        _find_http_status(failure) in UNUSABLE_STATUSES
        or _parse_error(failure).get("code") in UNUSABLE_CODES
        or _NO_ANSWER.search(failure)
    )
    return BeadStatus.UNAVAILABLE if unusable else BeadStatus.CRASHED


def _describe_failure(failure: str) -> str:
    """A failure as one line: of an endpoint's JSON body the message alone, no address of ours."""
    text = _read_text(_parse_error(failure).get("message")) or failure
    text = _take_first_line(re.sub(r", url: \S+", "", text))
    return (
        text if _classify_failure(failure) is BeadStatus.UNAVAILABLE else f"the CLI reports: {text}"
    )


def _parse_error(failure: str) -> dict[str, Any]:
    """The error in a body of the endpoint that the CLI repeats as it is."""
    try:
        body = json.loads(failure)
    except (ValueError, RecursionError):
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}


def _find_http_status(text: str) -> int:
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


def _read_message(error: object) -> str:
    return _read_text(error.get("message")) if isinstance(error, dict) else _read_text(error)


def _parse_structured(text: str) -> object:
    """The last message where it is a JSON object, as ``--output-schema`` asks for; the CLI does
    not check it. Otherwise the hand-off file counts."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _describe_activity(item: dict[str, Any]) -> str:
    """An item as one short line: a command, the files of a change, the first of a text."""
    kind = item.get("type")
    if kind == "command_execution":
        command = unwrap_command(_read_text(item.get("command")))
        return f"runs {_take_first_line(command)}"[:160]
    if kind == "file_change":
        rows = item.get("changes")
        rows = rows if isinstance(rows, list) else []
        paths = [_read_text(row.get("path")) for row in rows if isinstance(row, dict)]
        return f"edits {', '.join(paths)}"[:160]
    if kind == "agent_message":
        text = _read_text(item.get("text")).strip()
        return (
            "reports" if isinstance(_parse_structured(text), dict) else _take_first_line(text)[:120]
        )
    return _take_first_line(_read_text(item.get("message")))[:160] if kind == "error" else ""


def _take_first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:LONGEST]


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _read_number(value: object) -> int:
    return value if type(value) is int and 0 <= value < MOST else 0
