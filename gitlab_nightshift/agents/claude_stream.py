"""What ``claude --output-format stream-json`` prints, read into progress and a report.

Every line is hostile data: of any shape, of any size, perhaps no JSON at all.
"""

import dataclasses
from typing import Any

from gitlab_nightshift.agents.agent import UNUSABLE_STATUSES, AgentProgress, Report
from gitlab_nightshift.agents.json_stream import JsonStreamReader
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.events import format_elapsed
from gitlab_nightshift.records.tool_calls import clean_line
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import ProgramEnd

MOST = 10**12
"""Larger figures cannot be a bead's."""
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
WHOLE_ANSWERS = {"end_turn", "stop_sequence", "tool_use"}
"""How a model ends an answer that it has finished. The CLI calls a run a success also where the
last answer stopped at a limit, and (null) where its stream broke off between two blocks."""
_ENDS = {"stop_reason": "end_turn", "terminal_reason": "completed"}
_SAID_TWICE = ("subtype", "is_error", "result", "structured_output")


class ClaudeStreamReader(JsonStreamReader):
    """The reader of one bead's stream. The CLI itself waits for an overloaded endpoint without
    end."""

    def __init__(self, patience_s: float) -> None:
        super().__init__(patience_s)
        self._result: dict[str, Any] = {}
        self._disagreed = self._answering = False
        self._tokens = Tally()
        self._current = ""
        self._api_error, self._refusals = "", 0

    def _handle_event(self, event: dict[str, Any]) -> AgentProgress | None:
        if event.get("type") == "result":
            self._handle_result(event)
        if event.get("type") == "system" and event.get("subtype") == "api_retry":
            return self._handle_retry(event)
        if event.get("type") == "stream_event":
            return self._handle_partial(event.get("event"))
        if event.get("type") == "user":
            self._handle_results(event.get("message"))
        return self._handle_message(event) if event.get("type") == "assistant" else None

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> Report:
        """The same, with the commands that the CLI did not allow."""
        report = super().build_report(ended, stderr)
        return dataclasses.replace(report, denied=_list_denials(self._result))

    def _report_own_end(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> Report:
        result = self._result
        if not result:
            return self._report_missing_end(ended, usage, stderr)
        succeeded = result.get("subtype") == "success" and result.get("is_error") is False
        if not succeeded or ended.exit_status != 0:
            status, error = _classify_failure(result, self._api_error, ended.exit_status)
            return Report(status, usage, error)
        if why := self._describe_cut():
            return Report(BeadStatus.CRASHED, usage, f"the CLI calls it a success, with {why}")
        return Report(BeadStatus.OK, usage, "", result.get("structured_output"))

    def _handle_result(self, event: dict[str, Any]) -> None:
        before, said = self._result, event.get("result")
        self._disagreed = self._disagreed or bool(
            before and any(before.get(key) != event.get(key) for key in _SAID_TWICE)
        )
        self._result, self._said = event, said if isinstance(said, str) else ""

    def _describe_cut(self) -> str:
        """What shows that a successful run did not come to its end, "" for nothing. An older CLI
        does not have these keys; ``stop_reason`` may be that of an answer before the last."""
        stop, end = (self._result.get(key, right) for key, right in _ENDS.items())
        if self._disagreed:
            return "two results that disagree"
        if end != _ENDS["terminal_reason"]:
            return f"the end {clean_line(str(end), LONGEST_NAME)}"
        if self._answering:
            return "an answer that was cut off (it has no stop_reason)"
        if not isinstance(stop, str) or stop not in WHOLE_ANSWERS:
            why = clean_line(str(stop), LONGEST_NAME)
            return f"an answer that was cut off (stop_reason: {why})"
        return ""

    def _handle_retry(self, event: dict[str, Any]) -> AgentProgress:
        status = _read_number(event.get("error_status"))
        self._refusals += status in REFUSED_STATUSES
        failing_s = self._measure_failing()
        if self._refusals >= REFUSALS_TO_BELIEVE:
            self._unusable = f"the model endpoint refused the key (HTTP {status})"
        elif failing_s >= self._patience_s:
            answer = f"answered {status}" if status else "did not answer"
            self._unusable = f"the model endpoint {answer} for {format_elapsed(failing_s)}"
        text = f"the model endpoint answers {status or 'nothing'}; the CLI tries again"
        return AgentProgress(text, unusable=self._unusable)

    def _handle_partial(self, part: object) -> AgentProgress | None:
        """The output tokens of the message that is coming in; whole messages lack them."""
        if not isinstance(part, dict):
            return None
        if part.get("type") == "message_start" and isinstance(part.get("message"), dict):
            self._current = str(part["message"].get("id"))
            self._failing_since, self._answering = 0.0, True
        if part.get("type") != "message_delta":
            return None
        self._note_stop(part.get("delta"))
        self._tokens.count(self._current, _count_tokens(part.get("usage")))
        return AgentProgress(tokens=self._tokens.total)

    def _note_stop(self, part: object) -> None:
        """An answer has come to its end; one that the CLI asked for anew comes whole."""
        if isinstance(part, dict) and part.get("stop_reason"):
            self._answering = False

    def _handle_message(self, event: dict[str, Any]) -> AgentProgress | None:
        message = event.get("message")
        if not isinstance(message, dict):
            return None
        self._note_stop(message)
        self._api_error = str(event.get("error") or "")
        if not self._api_error:
            self._failing_since = 0.0
        name = str(message.get("id"))
        self._tokens.count(name, _count_tokens(message.get("usage")), grows=True)
        parts = message.get("content")
        parts = parts if isinstance(parts, list) else []
        parts = [part for part in parts if isinstance(part, dict)]
        for part in parts:
            if part.get("type") == "tool_use":
                self._calls.add(part.get("id"), part.get("name"), part.get("input"))
        texts = [_describe_activity(part) for part in parts]
        return AgentProgress(", ".join(text for text in texts if text), self._tokens.total)

    def _handle_results(self, message: object) -> None:
        parts = message.get("content") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else []:
            if isinstance(part, dict) and part.get("type") == "tool_result":
                failed = part.get("is_error") is True
                result = "failed" if failed else "ok"
                call = part.get("tool_use_id")
                self._calls.finish(call, result, part.get("content"), failed=failed)

    def _read_usage(self) -> Usage:
        result, seen = self._result, self._tokens.total
        if not result:
            return Usage(None if seen else 0.0, seen)
        return Usage(
            _read_usd(result.get("total_cost_usd")), max(_count_model_tokens(result), seen)
        )


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


def _classify_failure(
    result: dict[str, Any], api_error: str, exit_status: int
) -> tuple[BeadStatus, str]:
    """Why a run that the CLI calls an error failed: ``subtype`` alone proves nothing."""
    subtype = str(result.get("subtype", ""))
    errors = result.get("errors")
    listed = " ".join(map(str, errors)) if isinstance(errors, list) else ""
    text = str(result.get("result") or listed or subtype)[:500]
    if subtype == "error_max_budget_usd":
        return BeadStatus.BUDGET, "the budget is spent"
    if subtype == "error_max_structured_output_retries":
        return BeadStatus.NO_HANDOFF, text
    if (
        api_error in UNUSABLE_ERRORS
        or _read_number(result.get("api_error_status")) in UNUSABLE_STATUSES
    ):
        return BeadStatus.UNAVAILABLE, text
    return BeadStatus.CRASHED, f"the CLI reports an error (exit status {exit_status}): {text}"


def _list_denials(result: dict[str, Any]) -> tuple[str, ...]:
    rows = result.get("permission_denials")
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return tuple(
        _describe_activity(
            {
                **row,
                "type": "tool_use",
                "name": row.get("tool_name"),
                "input": row.get("tool_input"),
            }
        )
        for row in rows[:50]
    )


def _describe_activity(part: dict[str, Any]) -> str:
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


def _read_number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < MOST else 0


def _read_usd(value: object) -> float | None:
    """A price that can be one: not negative, and a number, which JSON's ``NaN`` is not."""
    return float(value) if isinstance(value, int | float) and 0 <= value < MOST else None


def _count_tokens(usage: object) -> int:
    if not isinstance(usage, dict):
        return 0
    return sum(_read_number(value) for key, value in usage.items() if key.endswith("_tokens"))


def _count_model_tokens(result: dict[str, Any]) -> int:
    models = result.get("modelUsage")
    rows = list(models.values()) if isinstance(models, dict) else []
    return sum(
        _read_number(value)
        for row in rows
        if isinstance(row, dict)
        for key, value in row.items()
        if key.endswith("Tokens") and key != "maxOutputTokens"
    )
