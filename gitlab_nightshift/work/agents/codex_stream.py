"""What ``codex exec --json`` prints, read into progress and a report.

Every line is hostile data: of any shape, of any size, perhaps no JSON at all.
"""

import json
import re
import shlex
from typing import Any

from gitlab_nightshift.events import elapsed, now_s
from gitlab_nightshift.host.process import End, Ended
from gitlab_nightshift.records import BeadStatus, Usage
from gitlab_nightshift.work.agents.base import Progress, Report

MOST = 10**12
"""Larger figures are none of a bead."""
LONGEST = 500
UNUSABLE_STATUSES = {401, 402, 403, 404, 429, 500, 502, 503, 504, 529}
UNUSABLE_CODES = {
    "billing_hard_limit_reached",
    "insufficient_quota",
    "invalid_api_key",
    "model_not_found",
    "rate_limit_exceeded",
    "unsupported_model",
}
_STATUS = re.compile(r"(?:unexpected|last) status:? (\d{3})\b")
_NO_ANSWER = re.compile(
    r"(?i)experiencing high demand|connection failed|stream disconnected|error sending request"
    r"|usage limit|quota exceeded|at capacity"
)
"""How the CLI words an endpoint that fails, where it names no status."""
_NOT_STARTED = re.compile(
    r"bwrap: |error building bubblewrap command|codex-linux-sandbox|Failed to create unified exec"
)
"""The CLI's own sandbox, or the system, did not let a command begin."""
_STATUS_OF_END = {
    End.IDLE: (BeadStatus.IDLE, "no output for too long"),
    End.TIMEOUT: (BeadStatus.TIMEOUT, "took too long"),
    End.OUTPUT_LIMIT: (BeadStatus.OUTPUT_LIMIT, "printed too much"),
}


class StreamReader:
    """Reads one bead's events and keeps of them only what the report needs.

    ``patience_s``: seconds for which the endpoint may fail without a break.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s, self._failing_since = patience_s, 0.0
        self._asked = self._ended = False
        self._failure, self._unusable, self._last = "", "", ""
        self._tokens = 0
        self._commands = self._not_started = 0
        self._why_not_started = ""
        self._json_lines = self._other_lines = 0

    def line(self, raw: bytes) -> Progress | None:
        """One JSON line; a line that is not JSON is counted."""
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            self._other_lines += bool(raw.strip())
            return None
        self._json_lines += 1
        kind, item = event.get("type"), event.get("item")
        if kind == "turn.started":
            self._asked = True
        if kind == "error":
            return self._retry(_text(event.get("message")))
        if kind == "turn.failed":
            self._failure = _message(event.get("error")) or "it gave no reason"
        if kind == "turn.completed":
            return self._completed(event.get("usage"))
        if kind in ("item.started", "item.completed") and isinstance(item, dict):
            return self._item(item, done=kind == "item.completed")
        return None

    def report(self, ended: Ended, stderr: bytes) -> Report:
        """The status: what this program did to the process first, then what the CLI says."""
        usage = self._usage()
        if self._unusable:
            return Report(BeadStatus.UNAVAILABLE, usage, self._unusable)
        if ended.end in _STATUS_OF_END:
            status, error = _STATUS_OF_END[ended.end]
            if self._failing_since and status in (BeadStatus.IDLE, BeadStatus.TIMEOUT):
                status, error = BeadStatus.UNAVAILABLE, "the model endpoint did not answer"
            return Report(status, usage, error)
        if self._failure:
            return Report(_status_of(self._failure), usage, _said(self._failure))
        if not self._ended or ended.exit_status != 0:
            return self._without_end(ended, usage, stderr)
        if self._commands and self._not_started == self._commands:
            error = f"no command could be started: {self._why_not_started}"
            return Report(BeadStatus.CRASHED, usage, error)
        return Report(BeadStatus.OK, usage, "", _structured(self._last))

    def _retry(self, message: str) -> Progress | None:
        """The CLI tries again, or gives up: then ``turn.failed`` follows with the same text."""
        if not message.startswith("Reconnecting"):
            return None
        self._failing_since = self._failing_since or now_s()
        failing_s = now_s() - self._failing_since
        status = _http_status(message)
        answer = f"answers {status}" if status else "does not answer"
        if failing_s >= self._patience_s:
            self._unusable = f"the model endpoint {answer} for {elapsed(failing_s)}"
        text = f"the model endpoint {answer}; the CLI tries again"
        return Progress(text, unusable=self._unusable)

    def _completed(self, usage: object) -> Progress:
        """The tokens of the whole turn. What came out of the cache is a part of the input, what
        was thought a part of the output."""
        self._ended = True
        parts = usage if isinstance(usage, dict) else {}
        self._tokens += _number(parts.get("input_tokens")) + _number(parts.get("output_tokens"))
        return Progress(tokens=self._tokens)

    def _item(self, item: dict[str, Any], *, done: bool) -> Progress | None:
        kind = item.get("type")
        if kind != "error":
            self._failing_since = 0.0
        if kind == "agent_message" and done:
            self._last = _text(item.get("text"))
        if done and kind in ("command_execution", "file_change"):
            if kind == "command_execution":
                self._count(item)
            return None  # it was told when it started
        text = _activity(item)
        return Progress(text) if text else None

    def _count(self, command: dict[str, Any]) -> None:
        """A broken sandbox is seen in the commands alone: the exit status is 0 all the same."""
        self._commands += 1
        output = _text(command.get("aggregated_output"))
        if command.get("exit_code") != 0 and _NOT_STARTED.match(output.lstrip()):
            self._not_started += 1
            self._why_not_started = _first_line(output)

    def _usage(self) -> Usage:
        """No dollars: the CLI knows no prices. Tokens are told at the end only."""
        if not self._asked:
            return Usage()
        return Usage(None, self._tokens if self._ended else None)

    def _without_end(self, ended: Ended, usage: Usage, stderr: bytes) -> Report:
        last = stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
        if ended.exit_status == 0 or (self._other_lines and not self._json_lines):
            error = f"the CLI printed no result (exit status {ended.exit_status}) {last[0]}"
            return Report(BeadStatus.BAD_OUTPUT, usage, error.strip())
        error = f"the CLI ended with exit status {ended.exit_status} {last[0]}".strip()
        return Report(BeadStatus.CRASHED, usage, error)


def _status_of(failure: str) -> BeadStatus:
    """Whether a failed turn is the endpoint's fault, so that no other bead could do better."""
    unusable = (
        _http_status(failure) in UNUSABLE_STATUSES
        or _error_of(failure).get("code") in UNUSABLE_CODES
        or _NO_ANSWER.search(failure)
    )
    return BeadStatus.UNAVAILABLE if unusable else BeadStatus.CRASHED


def _said(failure: str) -> str:
    """A failure as one line: a body of the endpoint as the message in it, no address of ours."""
    text = _text(_error_of(failure).get("message")) or failure
    text = _first_line(re.sub(r", url: \S+", "", text))
    return text if _status_of(failure) is BeadStatus.UNAVAILABLE else f"the CLI reports: {text}"


def _error_of(failure: str) -> dict[str, Any]:
    """The error in a body of the endpoint that the CLI repeats as it is."""
    try:
        body = json.loads(failure)
    except (ValueError, RecursionError):
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}


def _http_status(text: str) -> int:
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


def _message(error: object) -> str:
    return _text(error.get("message")) if isinstance(error, dict) else _text(error)


def _structured(text: str) -> object:
    """The last message where it is a JSON object, as ``--output-schema`` asks for; the CLI does
    not check it. Anything else leaves the word to the hand-off file."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _activity(item: dict[str, Any]) -> str:
    """An item as one short line: a command, the files of a change, the first of a text."""
    kind = item.get("type")
    if kind == "command_execution":
        return f"runs {_plain_command(_text(item.get('command')))}"[:160]
    if kind == "file_change":
        rows = item.get("changes")
        rows = rows if isinstance(rows, list) else []
        paths = [_text(row.get("path")) for row in rows if isinstance(row, dict)]
        return f"edits {', '.join(paths)}"[:160]
    if kind == "agent_message":
        text = _text(item.get("text")).strip()
        return "reports" if isinstance(_structured(text), dict) else _first_line(text)[:120]
    return _first_line(_text(item.get("message")))[:160] if kind == "error" else ""


def _plain_command(command: str) -> str:
    """What the model asked for, without the shell that the CLI puts around it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    shell = len(words) == 3 and words[1] in ("-c", "-lc")
    return _first_line(words[2] if shell else command)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:LONGEST]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    return value if type(value) is int and 0 <= value < MOST else 0
