"""A plain model behind Chat Completions, without an agent's CLI.

A small program of this package runs in the sandbox in the place of a CLI: it chooses what the model
is shown, asks it once for each bead, and applies its SEARCH/REPLACE blocks exactly or not at all.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.agent import (
    STATUS_OF_END,
    UNUSABLE_STATUSES,
    AgentProgress,
    BeadTask,
    ProviderInfo,
    Report,
)
from gitlab_nightshift.agents.reported_calls import ReportedCalls
from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.patching import inside
from gitlab_nightshift.patching.model_context import CONTEXT_TOKENS
from gitlab_nightshift.records.bead_results import BeadStatus, Usage
from gitlab_nightshift.records.tool_calls import clean_line
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.sandbox.system_paths import build_python_command, list_interpreter_paths
from gitlab_nightshift.settings.model import Settings

KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
SPEC = "bead.json"
LONGEST_NOTE = 300
PROGRAM = Path(inside.__file__)
PACKAGE = PROGRAM.parents[1]


class Patch:
    """The agent ``patch``."""

    name = "patch"
    keys: tuple[str, ...] = (KEY,)
    about = ProviderInfo(
        program="",
        tools="none: it is shown files, and its blocks are applied exactly or not at all",
        answer="by the endpoint where it knows json_schema, else by this program",
        cost="tokens; dollars by `prices`",
        report_by="as your answer, with no other text in it",
    )

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, env: Mapping[str, str]) -> None:
        """A model, and a key or an endpoint that may need none."""
        if not self._settings.models.implement:
            raise build_config_error(
                "models.implement: name the model of your endpoint; the agent patch has no default"
            )
        if not (env.get(KEY) or env.get(BASE_URL) or self._settings.model_endpoint):
            raise NightshiftError(
                Code.PROVIDER_UNAVAILABLE,
                f"no model: set {KEY} as a masked CI variable, or model_endpoint to a server that"
                " needs no key",
            )

    def find_cloud_variables(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """None."""
        return ()

    def build_settings_env(self) -> dict[str, str]:
        """None."""
        return {}

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """The gateway's address, and the placeholder."""
        return {BASE_URL: base_url, KEY: placeholder}

    def build_files(self, task: BeadTask) -> dict[str, str]:
        """What the program is to do; nothing of it is secret."""
        spec = {
            "bead": task.bead,
            "model": task.model,
            "checkout": str(task.checkout),
            "analysis_file": str(task.handoff_file.with_name("analysis.json")),
            "schema": task.schema,
            "paths": list(self._settings.paths),
            "exclude_paths": list(self._settings.exclude_paths),
            "context_tokens": CONTEXT_TOKENS,
            "answer_tokens": self._settings.max_answer_tokens,
        }
        return {SPEC: json.dumps(spec)}

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """This package's own program, on the interpreter alone."""
        spec = task.handoff_file.with_name(SPEC)
        return build_python_command(str(PROGRAM), str(spec))

    def build_stdin(self, shared: str, rest: str) -> bytes:
        """The prompt as it is."""
        return (shared + rest).encode()

    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """This package and its Python."""
        return (PACKAGE, *list_interpreter_paths())

    def build_reader(self) -> "LineReader":
        """A fresh reader."""
        return LineReader()


class LineReader:
    """Reads what the program prints; hostile data like any agent's output."""

    def __init__(self) -> None:
        self._result: dict[str, Any] = {}
        self._notes = dict[str, str]()
        self._calls = ReportedCalls()

    def read_line(self, raw: bytes) -> AgentProgress | None:
        """One JSON line."""
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            return None
        if not isinstance(event, dict):
            return None
        if event.get("type") == "result":
            self._result = event
        if event.get("type") == "shown":
            files = event.get("files")
            for path in files if isinstance(files, list) else []:
                self._calls.add(str(path)[-100:], "Read", {"file_path": path})
        if event.get("type") == "smaller":
            most = str(event.get("tokens"))[:20]
            less = f"too much for this model: at most {most} tokens of the repository"
            self._notes["smaller"] = less
        if event.get("type") == "repeated":
            self._notes["repeated"] = clean_line(event.get("why"), LONGEST_NOTE)
        text = _describe_event(event)
        return AgentProgress(text[:160]) if text else None

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> Report:
        """The status: what this program did to the process first, then what the process reported.

        Only the gateway knows the tokens.
        """
        report = self._build_plain_report(ended, stderr)
        return dataclasses.replace(
            report,
            note="; ".join(filter(None, self._notes.values())),
            calls=self._calls.list_calls(),
        )

    def _build_plain_report(self, ended: ProgramEnd, stderr: bytes) -> Report:
        usage = Usage(None, 0)
        if ended.end in STATUS_OF_END:
            return Report(STATUS_OF_END[ended.end][0], usage, STATUS_OF_END[ended.end][1])
        if not self._result:
            last = stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
            error = f"it ended with {ended.how} {last[0]}".strip()
            return Report(BeadStatus.CRASHED, usage, error)
        if self._result.get("ok") is True and ended.exit_status == 0:
            return Report(BeadStatus.OK, usage, structured=self._result.get("structured"))
        return Report(_classify_failure(self._result), usage, str(self._result.get("error"))[:2000])


def _describe_event(event: Mapping[str, Any]) -> str:
    """A line of progress, "" for none."""
    kind = event.get("type")
    if kind == "shown":
        files = event.get("files")
        count = len(files) if isinstance(files, list) else 0
        return f"shows the model {count} files, about {event.get('tokens')} tokens"
    if kind == "hearing":
        return f"the model answers: {event.get('characters')} characters"
    if kind == "refused":
        return f"asks once more: {str(event.get('problem')).partition(chr(10))[0]}"
    return str(event.get("text", "")).partition("\n")[0] if kind == "said" else ""


def _classify_failure(result: Mapping[str, Any]) -> BeadStatus:
    if result.get("what") == "answer":
        return BeadStatus.BAD_OUTPUT
    unusable = result.get("what") == "endpoint" and result.get("status") in UNUSABLE_STATUSES
    return BeadStatus.UNAVAILABLE if unusable else BeadStatus.CRASHED
