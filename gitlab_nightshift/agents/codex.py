"""Codex: its command line, its environment, and what it prints.

The CLI's own sandbox cannot start within that of this program, which protects the machine, so it is
switched off. With ``isolation: none`` it is used where it works. The behavior of the CLI was
measured with 0.169.0; the tests run the pinned version.
"""

import functools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.agent import (
    LONGEST_PROGRESS,
    LONGEST_QUOTE,
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
    find_node_modules,
    find_program,
)
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.events import format_elapsed
from gitlab_nightshift.records.usage import Usage, unwrap_command
from gitlab_nightshift.sandbox.process import ProgramEnd, capture
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.untrusted_data import (
    as_count,
    as_object,
    as_text,
    filter_objects,
    parse_json,
    take_first_line,
)

KEY = "OPENAI_API_KEY"
SCHEMA_FILE = "schema.json"
WRITING_BEADS = ("implement", "verify")
"""Beads whose commands write to the checkout. Verify changes nothing, but builds."""
_DISABLED_FEATURES = (
    *("apps", "auth_elicitation", "browser_use", "computer_use", "goals", "hooks"),
    *("image_generation", "in_app_browser", "memories", "multi_agent", "multi_agent_v2", "plugins"),
    *("remote_plugin", "shell_snapshot", "tool_suggest", "unbounded_connection_retries"),
)
"""Features that a bead has no use for: each uses the network, or adds cost to every request."""
_FIXED_CONFIG = {
    "agents.enabled": False,
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
    "feedback.enabled": False,
    "include_apps_instructions": False,
    "include_permissions_instructions": False,
    "skills.bundled.enabled": False,
    "skills.include_instructions": False,
    "web_search": "disabled",
    # The checkout is data: AGENTS.md, which the CLI would take as instructions, is a file like any.
    "project_doc_max_bytes": 0,
    # A bead's own TMPDIR is writable anyway. In /tmp the CLI's sandbox makes mount points, such as
    # an empty /tmp/.git, which other programs take for a checkout.
    "sandbox_workspace_write.exclude_slash_tmp": True,
    # A login shell would replace PATH.
    "allow_login_shell": False,
    "approval_policy": "never",
}


class Codex(AgentProvider):
    """The ``codex`` CLI in ``exec`` mode."""

    name = "codex"
    keys = (KEY,)
    info = AgentInfo(
        cli="codex",
        tools="a shell; the allowed commands are asked for, and the sandbox is the wall",
        answer_checked_by="by the endpoint (--output-schema), and once more by this program",
        cost="tokens; dollars by `prices`",
        report_by="as your last message, with no other text in it",
    )

    def check(self, env: Mapping[str, str]) -> None:
        """Check that the CLI is installed and has a key."""
        check_program(self._settings.agent_executable or "codex", "@openai/codex", env)
        check_key(self.keys, env)

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """The placeholder for the key. The gateway's address is an argument."""
        return {KEY: placeholder}

    def build_files(self, task: BeadTask) -> dict[str, str]:
        """The schema of its last message."""
        return {SCHEMA_FILE: json.dumps(restrict_schema(task.schema))} if task.schema else {}

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """``codex exec``, without any configuration of the user or the checkout."""
        program = self._find_executable(path)
        schema = ["--output-schema", str(task.handoff_file.with_name(SCHEMA_FILE))]
        return [
            str(program),
            *("exec", "--json", "--color", "never", "--ephemeral"),
            # The checkout's own .codex/config.toml counts only with --trust, which is never given.
            *("--ignore-user-config", "--ignore-rules", "--skip-git-repo-check"),
            *("-C", str(task.checkout), "-m", task.model),
            *self._build_sandbox_args(program, path, task),
            *(schema if task.schema else []),
            *_format_options(self._build_config(task)),
            "-",  # the prompt comes on stdin
        ]

    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """The ``node_modules`` folder that contains the CLI, else its package, else the program
        alone."""
        program = self._find_executable(path)
        packages = (each for each in program.parents if (each / "codex-package.json").is_file())
        return find_node_modules(program) or (next(packages, program),)

    def build_reader(self) -> OutputReader:
        """A new reader; as patient with a failing endpoint as with a silent CLI."""
        return CodexStreamReader(self._settings.idle_timeout)

    def _find_executable(self, path: str) -> Path:
        """The native program: npm's ``codex`` only starts it, and would need Node."""
        program = find_program(self._settings.agent_executable or "codex", path)
        return next(iter(_find_native_programs(program)), program)

    def _build_sandbox_args(self, program: Path, path: str, task: BeadTask) -> list[str]:
        # If the CLI cannot start its sandbox, every command fails, and the CLI still ends with exit
        # status 0 and a cheerful message.
        if self._settings.isolation != "none" or not own_sandbox_works(str(program), path):
            return ["-s", "danger-full-access"]
        if task.bead not in WRITING_BEADS:
            return ["-s", "read-only"]
        return ["-s", "workspace-write", "--add-dir", str(task.handoff_file.parent)]

    def _build_config(self, task: BeadTask) -> dict[str, object]:
        endpoint = {
            "name": "nightshift",
            "base_url": f"{task.base_url}/v1",
            "env_key": KEY,
            "wire_api": "responses",
            # The gateway waits for an overloaded endpoint, so the CLI need not.
            "request_max_retries": 1,
            "stream_max_retries": 3,
            "stream_idle_timeout_ms": int(self._settings.idle_timeout * 1000),
        }
        return {
            "model_provider": "nightshift",
            "model_providers.nightshift": endpoint,
            # Otherwise the model's commands have the key in their environment.
            "shell_environment_policy": {"inherit": "all", "exclude": [KEY]},
            **_FIXED_CONFIG,
            **{f"features.{name}": False for name in _DISABLED_FEATURES},
        }


@functools.cache
def own_sandbox_works(program: str, path: str) -> bool:
    """True if the CLI's own sandbox can run a command that does nothing (0.1 s)."""
    with tempfile.TemporaryDirectory(prefix="nightshift-") as folder:
        home, tmp = Path(folder, "home"), Path(folder, "tmp")
        home.mkdir()
        tmp.mkdir()  # beside HOME: the CLI cannot start its sandbox from a HOME below TMPDIR
        env = {"PATH": path, "HOME": str(home), "TMPDIR": str(tmp)}
        argv = [program, "sandbox", "--", "/bin/sh", "-c", ":"]
        return capture(argv, cwd=home, env=env, timeout_s=20).ok


def _find_native_programs(script: Path) -> Iterable[Path]:
    """The program that npm's ``codex.js`` starts: npm and pnpm install it in different folders."""
    if script.name != "codex.js":
        return ()
    package = script.parents[1]
    inner = f"vendor/{os.uname().machine}-*/bin/codex"
    beside = package.parent.glob(f"codex-linux-*/{inner}")
    below = package.glob(f"node_modules/@openai/codex-linux-*/{inner}")
    return (path.resolve() for path in (*beside, *below, *package.glob(inner)))


def _format_options(config: Mapping[str, object]) -> list[str]:
    """``-c key=value`` options, whose values are TOML."""
    return [
        word for key, value in config.items() for word in ("-c", f"{key}={_format_toml(value)}")
    ]


def _format_toml(value: object) -> str:
    """A value as TOML, whose strings, numbers and lists look like JSON's."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}={_format_toml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


# --- the schema of its last message ---------------------------------------------------------------

_COPIED = frozenset({"type", "enum", "const", "description", "$ref"})
"""Keywords of the subset that are copied: their values are no schemas."""


def restrict_schema(schema: Any) -> Any:
    """A JSON Schema in the subset that OpenAI's structured outputs take: every property is
    required, no other one is allowed, and what the subset does not know is left out. The hand-off
    is validated by the whole schema later, as the CLI does not check it."""
    if not isinstance(schema, dict):
        return schema
    restricted = {key: value for key, value in schema.items() if key in _COPIED}
    if "anyOf" in schema:
        restricted["anyOf"] = [restrict_schema(option) for option in schema["anyOf"]]
    for key in ("$defs", "properties"):
        if key in schema:
            restricted[key] = {name: restrict_schema(value) for name, value in schema[key].items()}
    if "items" in schema:
        restricted["items"] = restrict_schema(schema["items"])
    if schema.get("type") == "object":
        restricted["required"] = list(schema.get("properties", {}))
        restricted["additionalProperties"] = False
    return restricted


# --- the CLI's output -----------------------------------------------------------------------------

LONGEST_TEXT = 500
"""Characters of a command or an error."""
UNUSABLE_CODES = {
    "billing_hard_limit_reached",
    "insufficient_quota",
    "invalid_api_key",
    "model_not_found",
    "rate_limit_exceeded",
    "unsupported_model",
}
"""Codes of the endpoint's errors that would fail every other bead, too."""
_STATUS = compile_lazily(r"(?:unexpected|last) status:? (\d{3})\b")
# How the CLI describes a failing endpoint if it names no status.
_NO_ANSWER = compile_lazily(
    r"(?i)experiencing high demand|connection failed|stream disconnected|error sending request"
    r"|usage limit|quota exceeded|at capacity"
)
# How the CLI says that its sandbox, or the system, did not let a command begin.
_NOT_STARTED = compile_lazily(
    r"bwrap: |error building bubblewrap command|codex-linux-sandbox|Failed to create unified exec"
)
_NO_REASON = "it gave no reason"


class CodexStreamReader(OutputLineReader):
    """Reads the events of ``codex exec --json``."""

    def __init__(self, patience_s: float) -> None:
        super().__init__(patience_s)
        self._turn_began = self._turn_ended = False
        self._failure = ""
        self._tokens = 0
        self._commands = self._not_started = 0
        self._why_not_started = ""

    def _handle_event(self, event: dict[str, Any]) -> AgentProgress | None:
        kind, item = event.get("type"), event.get("item")
        if kind == "turn.started":
            self._turn_began, self._turn_ended = True, False
        if kind == "error":
            return self._handle_error(as_text(event.get("message")))
        if kind == "turn.failed":
            error = event.get("error")
            self._failure = as_text(as_object(error).get("message", error)) or _NO_REASON
        if kind == "turn.completed":
            return self._handle_completion(as_object(event.get("usage")))
        if kind in ("item.started", "item.completed") and isinstance(item, dict):
            return self._handle_item(item, done=kind == "item.completed")
        return None

    def _report_exit(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> BeadReport:
        if self._failure:
            return _report_failure(self._failure, usage)
        if not self._turn_ended or ended.exit_status != 0:
            return self._report_missing_result(ended, usage, stderr)
        if self._commands and self._not_started == self._commands:
            error = f"no command could be started: {self._why_not_started}"
            return BeadReport(BeadStatus.CRASHED, usage, error)
        answer = parse_json(self._last_message)  # if it is no object, the hand-off file counts
        return BeadReport(BeadStatus.OK, usage, "", answer if isinstance(answer, dict) else None)

    def _handle_error(self, message: str) -> AgentProgress | None:
        """Handle an error after which the CLI retries or gives up. If it gives up within a turn,
        ``turn.failed`` follows with the same text."""
        if self._turn_ended:
            self._failure = self._failure or message or _NO_REASON
        if not message.startswith("Reconnecting"):
            return None
        failing_s = self._measure_failing_s()
        status = _find_http_status(message)
        answer = f"answers {status}" if status else "does not answer"
        if failing_s >= self._patience_s:
            self._unusable = f"the model endpoint {answer} for {format_elapsed(failing_s)}"
        text = f"the model endpoint {answer}; the CLI tries again"
        return AgentProgress(text, unusable=self._unusable)

    def _handle_completion(self, usage: dict[str, Any]) -> AgentProgress:
        self._turn_ended = True
        # Cached tokens are part of the input, reasoning tokens of the output.
        self._tokens += sum(as_count(usage.get(key)) for key in ("input_tokens", "output_tokens"))
        return AgentProgress(tokens=self._tokens)

    def _handle_item(self, item: dict[str, Any], *, done: bool) -> AgentProgress | None:
        kind = item.get("type")
        if kind != "error":
            self._failing_since = 0.0
        if kind == "agent_message" and done:
            self._last_message = as_text(item.get("text"))
        if done and kind in ("command_execution", "file_change"):
            if kind == "command_execution":
                self._count_command(item)
            return None  # it was reported when it started
        text = _describe_item(item)
        return AgentProgress(text) if text else None

    def _count_command(self, command: dict[str, Any]) -> None:
        """Count a command, and whether it started: if none did, the sandbox is broken."""
        self._commands += 1
        call_id, status = command.get("id"), command.get("exit_code")
        self._calls.add(call_id, "command", command)
        outcome = f"exit status {status}" if type(status) is int else "no exit status"
        self._calls.finish(call_id, outcome, command.get("aggregated_output"), failed=status != 0)
        output = as_text(command.get("aggregated_output"))
        if status != 0 and _NOT_STARTED.match(output.lstrip()):
            self._not_started += 1
            self._why_not_started = take_first_line(output, LONGEST_TEXT)

    def _read_usage(self) -> Usage:
        """No dollars: the CLI knows no prices. It reports tokens at the end only."""
        if not self._turn_began:
            return Usage()
        return Usage(None, self._tokens if self._turn_ended else None)


def _report_failure(failure: str, usage: Usage) -> BeadReport:
    """The report of a failed turn; if the endpoint is at fault, no other bead could do better.
    ``failure`` is a text of the CLI or an error body of the endpoint."""
    error = as_object(as_object(parse_json(failure)).get("error"))
    text = as_text(error.get("message")) or failure
    # Without the URL, which is the gateway's.
    text = take_first_line(re.sub(r", url: \S+", "", text), LONGEST_TEXT)
    if (
        _find_http_status(failure) in UNUSABLE_STATUSES
        or as_text(error.get("code")) in UNUSABLE_CODES
        or _NO_ANSWER.search(failure)
    ):
        return BeadReport(BeadStatus.UNAVAILABLE, usage, text)
    return BeadReport(BeadStatus.CRASHED, usage, f"the CLI reports: {text}")


def _find_http_status(text: str) -> int:
    match = _STATUS.search(text)
    return int(match[1]) if match else 0


def _describe_item(item: dict[str, Any]) -> str:
    """An item as one short line: a command, the files of a change, the first line of a text."""
    kind, text = item.get("type"), as_text(item.get("text"))
    if kind == "command_execution":
        command = unwrap_command(as_text(item.get("command")))
        return f"runs {take_first_line(command, LONGEST_TEXT)}"[:LONGEST_PROGRESS]
    if kind == "file_change":
        paths = [as_text(change.get("path")) for change in filter_objects(item.get("changes"))]
        return f"edits {', '.join(paths)}"[:LONGEST_PROGRESS]
    if kind == "agent_message":
        is_report = isinstance(parse_json(text), dict)
        return "reports" if is_report else take_first_line(text, LONGEST_QUOTE)
    if kind == "error":
        return take_first_line(as_text(item.get("message")), LONGEST_PROGRESS)
    return ""
