"""Claude Code: its command line, its environment, and what it prints.

The rules of the CLI guide an honest agent; the sandbox is what holds a hostile one. Flags that skip
permissions are never used. The behavior of the CLI was measured with 2.1.197; the tests run the
pinned version."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.agent import (
    LONGEST_QUOTE,
    TOOLS,
    UNUSABLE_STATUSES,
    AgentInfo,
    AgentProgress,
    AgentProvider,
    BeadReport,
    BeadTask,
    OutputLineReader,
    OutputReader,
    check_key,
    check_program,
    compute_command_s,
    describe_call,
    find_node_modules,
    find_program,
)
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.events import format_elapsed
from gitlab_nightshift.records.usage import Usage, clean_line
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.text.untrusted_data import (
    as_count,
    as_object,
    as_text,
    filter_objects,
    take_first_line,
)

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
CLOUD_VARIABLES = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
"""Variables by which the CLI uses a cloud, with that cloud's own credentials."""
LEAST_BUDGET_USD = 0.01
"""The CLI crashes on a budget that prints as zero."""


class ClaudeCode(AgentProvider):
    """The ``claude`` CLI in print mode."""

    name = "claude_code"
    keys = KEYS
    info = AgentInfo(
        cli="claude",
        tools="a bead's own, and the allowed commands; the CLI enforces both",
        answer_checked_by="by the CLI (--json-schema)",
        cost="dollars and tokens, counted by the gateway",
        report_by="by the tool StructuredOutput",
    )

    def check(self, env: Mapping[str, str]) -> None:
        """Check that the CLI is installed and has a key."""
        check_program(self._settings.agent_executable or "claude", "@anthropic-ai/claude-code", env)
        if not self.find_cloud_variables(env):
            check_key(KEYS, env)

    def find_cloud_variables(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """The variables for a cloud that the team passes on to agents."""
        return tuple(
            name for name in CLOUD_VARIABLES if name in self._settings.agent_env and env.get(name)
        )

    def build_settings_env(self) -> dict[str, str]:
        """Variables that switch off the CLI's updates, telemetry, memory, background tasks and git
        instructions, and its retries but one: the gateway waits for an overloaded endpoint."""
        command_ms = str(int(compute_command_s(self._settings) * 1000))
        return {
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
            # Attachments would put the remaining budget before the prompt, so that no cache is
            # used, and load files that a quoted line names by "@".
            "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            # The CLI's default of two minutes ends long builds.
            "BASH_DEFAULT_TIMEOUT_MS": command_ms,
            "BASH_MAX_TIMEOUT_MS": command_ms,
        }

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """The gateway's address, and the placeholder where the CLI looks for a key."""
        return {"ANTHROPIC_BASE_URL": base_url, "ANTHROPIC_API_KEY": placeholder}

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """``claude -p`` with exactly the bead's tools, and rules for what they may access."""
        schema = ["--json-schema", json.dumps(task.schema)] if task.schema else []
        return [
            str(self._find_executable(path)),
            # Plain json prints nothing before the end, so a working CLI would look idle.
            *("-p", "--input-format", "stream-json", "--output-format", "stream-json"),
            *("--verbose", "--include-partial-messages"),
            *("--model", task.model),
            # This flag alone restricts tools: beside --dangerously-skip-permissions, which root
            # cannot use anyway, --allowedTools would restrict nothing.
            *("--tools", ",".join(TOOLS[task.bead])),
            *("--permission-mode", "dontAsk"),
            *("--allowedTools", *_build_rules(task)),
            # Otherwise the checkout's hooks and .mcp.json servers run before any permission check.
            *("--setting-sources", "user", "--strict-mcp-config"),
            *("--max-budget-usd", f"{max(task.budget_usd, LEAST_BUDGET_USD):.4f}"),
            "--no-session-persistence",
            *schema,
        ]

    def build_stdin(self, shared: str, rest: str) -> bytes:
        """A message of two blocks. The service caches whole blocks up to a ``cache_control``, which
        the CLI itself sets only in the last block, which no other bead shares."""
        marked = {"type": "text", "text": shared, "cache_control": {"type": "ephemeral"}}
        blocks = [marked, {"type": "text", "text": rest}]
        message = {"type": "user", "message": {"role": "user", "content": blocks}}
        return json.dumps(message).encode() + b"\n"

    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """The ``node_modules`` folder that contains the CLI, else the program alone."""
        program = self._find_executable(path)
        return find_node_modules(program) or (program,)

    def _find_executable(self, path: str) -> Path:
        return find_program(self._settings.agent_executable or "claude", path)

    def build_reader(self) -> OutputReader:
        """A new reader; as patient with a failing endpoint as with a silent CLI."""
        return ClaudeStreamReader(self._settings.idle_timeout)


def _build_rules(task: BeadTask) -> list[str]:
    """Path rules for checkout and hand-off, and a rule for each allowed command.

    In the CLI an ``Edit`` rule governs Edit, Write and shell redirection, a ``Write`` rule nothing;
    reading the checkout needs no rule. The CLI has to read the hand-off's stub before it writes it.
    """
    rules = [f"Read(/{task.handoff_file.parent}/**)"]
    if task.schema:
        rules.append(f"Edit(/{task.handoff_file})")
    if "Edit" in TOOLS[task.bead]:
        rules.append("Edit(./**)")
    if task.any_command:
        return [*rules, "Bash"]
    for command in task.allowed_commands:
        # A single word allows that program with any arguments, several words exactly that command.
        rules.append(f"Bash({command} *)" if len(command.split()) == 1 else f"Bash({command})")
    return rules


# --- the CLI's output -----------------------------------------------------------------------------

LARGEST_USD = 10**12
"""A larger figure counts as unknown: no bead costs so much."""
MOST_RECENT = 1_000
"""Messages whose tokens are kept one by one."""
LONGEST_NAME = 200
"""Characters of an id or a reason that the CLI prints."""
KEY_REFUSALS = {401, 403}
MOST_KEY_REFUSALS = 3
"""The CLI itself retries a refused key for more than 90 s; three refusals take about 4 s."""
UNUSABLE_ERRORS = {
    "authentication_failed",
    "billing_error",
    "model_not_found",
    "rate_limit",
    "server_error",
}
"""The CLI's names of errors that would fail every other bead, too."""
FINISHED_REASONS = {"end_turn", "stop_sequence", "tool_use"}
"""The ``stop_reason`` of a complete answer."""
_REPEATED_KEYS = ("subtype", "is_error", "result", "structured_output")
"""The keys on which two results of one run have to agree."""


class ClaudeStreamReader(OutputLineReader):
    """Reads ``--output-format stream-json``. The CLI waits for an overloaded endpoint without
    end, so this reader gives up for it."""

    def __init__(self, patience_s: float) -> None:
        super().__init__(patience_s)
        self._result: dict[str, Any] = {}
        self._results_disagree = self._answering = False
        self._tokens = TokenTally()
        self._message_id = ""
        self._api_error, self._key_refusals = "", 0

    def _handle_event(self, event: dict[str, Any]) -> AgentProgress | None:
        kind = event.get("type")
        if kind == "result":
            self._handle_result(event)
        if kind == "system" and event.get("subtype") == "api_retry":
            return self._handle_retry(as_count(event.get("error_status")))
        if kind == "stream_event":
            return self._handle_stream_event(as_object(event.get("event")))
        if kind == "user":
            self._handle_tool_results(as_object(event.get("message")))
        if kind == "assistant" and isinstance(event.get("message"), dict):
            return self._handle_message(event["message"], str(event.get("error") or ""))
        return None

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> BeadReport:
        """The report, with the commands that the CLI did not allow."""
        report = super().build_report(ended, stderr)
        calls = filter_objects(self._result.get("permission_denials"))[:50]
        denied = (_describe_tool(call.get("tool_name"), call.get("tool_input")) for call in calls)
        return replace(report, denied=tuple(denied))

    def _report_exit(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> BeadReport:
        result = self._result
        if not result:
            return self._report_missing_result(ended, usage, stderr)
        # Without a key, subtype is "success" beside is_error: neither proves anything alone.
        succeeded = result.get("subtype") == "success" and result.get("is_error") is False
        if not succeeded or ended.exit_status != 0:
            status, error = _classify_failure(result, self._api_error, ended.exit_status)
            return BeadReport(status, usage, error)
        if flaw := self._find_flaw():
            return BeadReport(BeadStatus.CRASHED, usage, f"the CLI calls it a success, with {flaw}")
        return BeadReport(BeadStatus.OK, usage, "", result.get("structured_output"))

    def _handle_result(self, event: dict[str, Any]) -> None:
        if self._result and any(self._result.get(k) != event.get(k) for k in _REPEATED_KEYS):
            self._results_disagree = True
        self._result, self._last_message = event, as_text(event.get("result"))

    def _find_flaw(self) -> str:
        """Why a run that the CLI calls a success is not complete, "" if it is."""
        # The CLI also calls it a success if the last answer stopped at a limit, or its stream broke
        # off between two blocks (stop_reason null). Older CLIs print neither key, and stop_reason
        # may be that of an earlier answer.
        terminal_reason = self._result.get("terminal_reason", "completed")
        stop_reason = self._result.get("stop_reason", "end_turn")
        if self._results_disagree:
            return "two results that disagree"
        if terminal_reason != "completed":
            return f"the end {clean_line(str(terminal_reason), LONGEST_NAME)}"
        if self._answering:
            return "an answer that was cut off (it has no stop_reason)"
        if not isinstance(stop_reason, str) or stop_reason not in FINISHED_REASONS:
            reason = clean_line(str(stop_reason), LONGEST_NAME)
            return f"an answer that was cut off (stop_reason: {reason})"
        return ""

    def _handle_retry(self, status: int) -> AgentProgress:
        if status in KEY_REFUSALS:
            self._key_refusals += 1
        failing_s = self._measure_failing_s()
        if self._key_refusals >= MOST_KEY_REFUSALS:
            self._unusable = f"the model endpoint refused the key (HTTP {status})"
        elif failing_s >= self._patience_s:
            answer = f"answered {status}" if status else "did not answer"
            self._unusable = f"the model endpoint {answer} for {format_elapsed(failing_s)}"
        text = f"the model endpoint answers {status or 'nothing'}; the CLI tries again"
        return AgentProgress(text, unusable=self._unusable)

    def _handle_stream_event(self, event: dict[str, Any]) -> AgentProgress | None:
        """An event of an unfinished message: only such events have its output tokens so far."""
        if event.get("type") == "message_start" and isinstance(event.get("message"), dict):
            self._message_id = str(event["message"].get("id"))
            self._failing_since, self._answering = 0.0, True
        if event.get("type") != "message_delta":
            return None
        self._note_stop_reason(as_object(event.get("delta")))
        self._tokens.count(self._message_id, _count_tokens(event.get("usage")))
        return AgentProgress(tokens=self._tokens.total)

    def _note_stop_reason(self, message: dict[str, Any]) -> None:
        """Note that an answer is complete, if a message or its delta says so. After a repeated
        request, the CLI prints only the message, without stream events."""
        if message.get("stop_reason"):
            self._answering = False

    def _handle_message(self, message: dict[str, Any], error: str) -> AgentProgress:
        self._note_stop_reason(message)
        self._api_error = error
        if not error:
            self._failing_since = 0.0
        tokens = _count_tokens(message.get("usage"))
        # The CLI prints a message once for each of its blocks, each time with the same or a later
        # figure.
        self._tokens.count(str(message.get("id")), tokens, only_grows=True)
        texts = []
        for block in filter_objects(message.get("content")):
            if block.get("type") == "text":
                texts.append(take_first_line(str(block.get("text", "")), LONGEST_QUOTE))
            if block.get("type") == "tool_use":
                self._calls.add(block.get("id"), block.get("name"), block.get("input"))
                texts.append(_describe_tool(block.get("name"), block.get("input")))
        return AgentProgress(", ".join(filter(None, texts)), self._tokens.total)

    def _handle_tool_results(self, message: dict[str, Any]) -> None:
        for block in filter_objects(message.get("content")):
            if block.get("type") == "tool_result":
                failed = block.get("is_error") is True
                outcome, call_id = "failed" if failed else "ok", block.get("tool_use_id")
                self._calls.finish(call_id, outcome, block.get("content"), failed=failed)

    def _read_usage(self) -> Usage:
        result, seen = self._result, self._tokens.total
        if not result:  # the price of tokens that were seen is unknown, not 0
            return Usage(None if seen else 0.0, seen)
        usd = result.get("total_cost_usd")
        # NaN, which Python's parser takes, is in no range.
        plausible = isinstance(usd, int | float) and 0 <= usd < LARGEST_USD
        return Usage(float(usd or 0) if plausible else None, max(_count_model_tokens(result), seen))


class TokenTally:
    """The tokens of all messages, by each message's last figure. Of older messages only the sum is
    kept, as an agent can print millions."""

    def __init__(self) -> None:
        self.total = 0
        self._recent: dict[str, int] = {}

    def count(self, message_id: str, tokens: int, *, only_grows: bool = False) -> None:
        """Set a message's tokens; with ``only_grows``, a smaller figure than before is ignored."""
        message_id = message_id[:LONGEST_NAME]
        before = self._recent.pop(message_id, 0)
        now = max(tokens, before) if only_grows else tokens
        self._recent[message_id] = now
        self.total += now - before
        if len(self._recent) > MOST_RECENT:
            del self._recent[next(iter(self._recent))]


def _classify_failure(
    result: dict[str, Any], api_error: str, exit_status: int
) -> tuple[BeadStatus, str]:
    """The status and the reason of a run that the CLI calls an error."""
    subtype = str(result.get("subtype", ""))
    errors = result.get("errors")
    listed = " ".join(map(str, errors)) if isinstance(errors, list) else ""
    text = str(result.get("result") or listed or subtype)[:500]
    status = as_count(result.get("api_error_status"))
    if subtype == "error_max_budget_usd":
        return BeadStatus.BUDGET, "the budget is spent"
    if subtype == "error_max_structured_output_retries":
        return BeadStatus.NO_HANDOFF, text
    if api_error in UNUSABLE_ERRORS or status in UNUSABLE_STATUSES:
        return BeadStatus.UNAVAILABLE, text
    return BeadStatus.CRASHED, f"the CLI reports an error (exit status {exit_status}): {text}"


def _describe_tool(name: object, arguments: object) -> str:
    if name == "StructuredOutput":
        return "reports"
    return describe_call(name, arguments, ("command", "file_path", "description"))


def _count_tokens(usage: object) -> int:
    figures = as_object(usage).items()
    return sum(as_count(value) for key, value in figures if key.endswith("_tokens"))


def _count_model_tokens(result: dict[str, Any]) -> int:
    return sum(
        as_count(value)
        for usage in filter_objects(list(as_object(result.get("modelUsage")).values()))
        for key, value in usage.items()
        # maxOutputTokens is a limit of the model, not a figure of usage.
        if key.endswith("Tokens") and key != "maxOutputTokens"
    )
