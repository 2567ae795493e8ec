"""What ``claude --output-format stream-json`` prints, read into progress and a report.

Every line is hostile data: of any shape, of any size, perhaps no JSON at all.
"""

import json
from typing import Any

from gitlab_nightshift.events import elapsed, now_s
from gitlab_nightshift.host.process import End, Ended
from gitlab_nightshift.records import BeadStatus, Usage
from gitlab_nightshift.work.agents.base import Progress, Report

MOST = 10**12
"""Larger figures are none of a bead."""
MOST_RECENT, LONGEST_NAME = 1_000, 200
REFUSED_STATUSES = {401, 403}
REFUSALS_TO_BELIEVE = 3
"""The CLI itself goes on for minutes after a refused key; three refusals take about 4 s."""
UNUSABLE_ERRORS = {
    "authentication_failed",
    "billing_error",
    "model_not_found",
    "rate_limit",
    "server_error",
}
UNUSABLE_STATUSES = {401, 402, 403, 404, 429, 500, 502, 503, 504, 529}
_STATUS_OF_END = {
    End.IDLE: (BeadStatus.IDLE, "no output for too long"),
    End.TIMEOUT: (BeadStatus.TIMEOUT, "took too long"),
    End.OUTPUT_LIMIT: (BeadStatus.OUTPUT_LIMIT, "printed too much"),
}


class StreamReader:
    """Reads one bead's stream and keeps of it only what the report needs.

    ``patience_s``: seconds for which the endpoint may fail without a break. The CLI itself waits
    for an overloaded one without end.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s, self._failing_since = patience_s, 0.0
        self._result: dict[str, Any] | None = None
        self._tokens = Tally()
        self._current = ""
        self._unusable, self._api_error, self._refusals = "", "", 0
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
        if event.get("type") == "result":
            self._result = event
            return None
        if event.get("type") == "system" and event.get("subtype") == "api_retry":
            return self._retry(event)
        if event.get("type") == "stream_event":
            return self._partial(event.get("event"))
        return self._message(event) if event.get("type") == "assistant" else None

    def report(self, ended: Ended, stderr: bytes) -> Report:
        """The status: what this program did to the process first, then what the CLI says."""
        result = self._result or {}
        usage = self._usage(result)
        denied = _denied(result)
        if self._unusable:
            return Report(BeadStatus.UNAVAILABLE, usage, self._unusable, denied=denied)
        if ended.end in _STATUS_OF_END:
            status, error = _STATUS_OF_END[ended.end]
            if self._failing_since and status in (BeadStatus.IDLE, BeadStatus.TIMEOUT):
                status, error = BeadStatus.UNAVAILABLE, "the model endpoint did not answer"
            return Report(status, usage, error, denied=denied)
        if not result:
            return self._without_result(ended, usage, stderr)
        if result.get("is_error") or ended.exit_status != 0:
            status, error = _failure(result, self._api_error, ended.exit_status)
            return Report(status, usage, error, denied=denied)
        return Report(BeadStatus.OK, usage, "", result.get("structured_output"), denied)

    def _retry(self, event: dict[str, Any]) -> Progress:
        status = _number(event.get("error_status"))
        self._refusals += status in REFUSED_STATUSES
        self._failing_since = self._failing_since or now_s()
        failing_s = now_s() - self._failing_since
        if self._refusals >= REFUSALS_TO_BELIEVE:
            self._unusable = f"the model endpoint refuses the key (HTTP {status})"
        elif failing_s >= self._patience_s:
            answer = f"answered {status}" if status else "did not answer"
            self._unusable = f"the model endpoint {answer} for {elapsed(failing_s)}"
        text = f"the model endpoint answers {status or 'nothing'}; the CLI tries again"
        return Progress(text, unusable=self._unusable)

    def _partial(self, part: object) -> Progress | None:
        """The output tokens of the message that is coming in; whole messages lack them."""
        if not isinstance(part, dict):
            return None
        if part.get("type") == "message_start" and isinstance(part.get("message"), dict):
            self._current = str(part["message"].get("id"))
            self._failing_since = 0.0
        if part.get("type") != "message_delta":
            return None
        self._tokens.count(self._current, _token_sum(part.get("usage")))
        return Progress(tokens=self._tokens.total)

    def _message(self, event: dict[str, Any]) -> Progress | None:
        message = event.get("message")
        if not isinstance(message, dict):
            return None
        self._api_error = str(event.get("error") or "")
        if not self._api_error:
            self._failing_since = 0.0
        name = str(message.get("id"))
        self._tokens.count(name, _token_sum(message.get("usage")), grows=True)
        parts = message.get("content")
        parts = parts if isinstance(parts, list) else []
        texts = [_activity(part) for part in parts if isinstance(part, dict)]
        return Progress(" · ".join(text for text in texts if text), self._tokens.total)

    def _usage(self, result: dict[str, Any]) -> Usage:
        seen = self._tokens.total
        if not result:
            return Usage(None if seen else 0.0, seen)
        return Usage(_usd(result.get("total_cost_usd")), max(_model_tokens(result), seen))

    def _without_result(self, ended: Ended, usage: Usage, stderr: bytes) -> Report:
        last = stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
        if ended.exit_status == 0 or (self._other_lines and not self._json_lines):
            error = f"the CLI printed no result (exit status {ended.exit_status}) {last[0]}"
            return Report(BeadStatus.BAD_OUTPUT, usage, error.strip())
        error = f"the CLI ended with exit status {ended.exit_status} {last[0]}".strip()
        return Report(BeadStatus.CRASHED, usage, error)


class Tally:
    """The tokens of messages, each counted by its last figure. An agent can print millions of
    messages: of older ones only the sum is remembered."""

    def __init__(self) -> None:
        self.total = 0
        self._recent: dict[str, int] = {}

    def count(self, name: str, tokens: int, *, grows: bool = False) -> None:
        """Take a message's figure; with ``grows`` a smaller one than before does not count."""
        name = name[:LONGEST_NAME]
        before = self._recent.pop(name, 0)
        now = max(tokens, before) if grows else tokens
        self._recent[name] = now
        self.total += now - before
        if len(self._recent) > MOST_RECENT:
            del self._recent[next(iter(self._recent))]


def _failure(result: dict[str, Any], api_error: str, exit_status: int) -> tuple[BeadStatus, str]:
    """Why a run that the CLI calls an error failed: ``subtype`` alone proves nothing."""
    subtype = str(result.get("subtype", ""))
    errors = result.get("errors")
    listed = " ".join(map(str, errors)) if isinstance(errors, list) else ""
    text = str(result.get("result") or listed or subtype)[:500]
    if subtype == "error_max_budget_usd":
        return BeadStatus.BUDGET, "the budget is spent"
    if subtype == "error_max_structured_output_retries":
        return BeadStatus.NO_HANDOFF, text
    if api_error in UNUSABLE_ERRORS or _number(result.get("api_error_status")) in UNUSABLE_STATUSES:
        return BeadStatus.UNAVAILABLE, text
    return BeadStatus.CRASHED, f"the CLI reports an error (exit status {exit_status}): {text}"


def _denied(result: dict[str, Any]) -> tuple[str, ...]:
    rows = result.get("permission_denials")
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return tuple(
        _activity(
            {
                **row,
                "type": "tool_use",
                "name": row.get("tool_name"),
                "input": row.get("tool_input"),
            }
        )
        for row in rows[:50]
    )


def _activity(part: dict[str, Any]) -> str:
    """A part of a message as one short line: a tool and its object, or the first of a text."""
    if part.get("type") == "text":
        return str(part.get("text", "")).strip().partition("\n")[0][:120]
    if part.get("type") != "tool_use":
        return ""
    given = part.get("input")
    given = given if isinstance(given, dict) else {}
    if part.get("name") == "StructuredOutput":
        return "reports"
    what = given.get("command") or given.get("file_path") or given.get("description") or ""
    return f"{part.get('name')} {what}"[:160].strip()


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < MOST else 0


def _usd(value: object) -> float | None:
    """A price that can be one: not negative, and a number, which JSON's ``NaN`` is not."""
    return float(value) if isinstance(value, int | float) and 0 <= value < MOST else None


def _token_sum(usage: object) -> int:
    if not isinstance(usage, dict):
        return 0
    return sum(_number(value) for key, value in usage.items() if key.endswith("_tokens"))


def _model_tokens(result: dict[str, Any]) -> int:
    models = result.get("modelUsage")
    rows = list(models.values()) if isinstance(models, dict) else []
    return sum(
        _number(value)
        for row in rows
        if isinstance(row, dict)
        for key, value in row.items()
        if key.endswith("Tokens") and key != "maxOutputTokens"
    )
