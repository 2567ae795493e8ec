"""A model behind Chat Completions, without an agent's CLI.

Instead of a CLI, a small program of this package runs in the sandbox: as ``model`` it gives the
model tools, in a loop; as ``patch`` it asks once for each bead.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.agent import (
    LONGEST_PROGRESS,
    TOOLS,
    UNUSABLE_STATUSES,
    AgentInfo,
    AgentProgress,
    AgentProvider,
    BeadReport,
    BeadTask,
    OutputLineReader,
    OutputReader,
    compute_command_s,
    describe_call,
)
from gitlab_nightshift.agents.model import inside
from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gateway.prices import merge_rates
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.usage import UNKNOWN_USAGE, Usage, clean_line
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.sandbox.system_paths import build_python_command, list_interpreter_paths
from gitlab_nightshift.text.untrusted_data import as_text, take_first_line

KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
SPEC_FILE = "bead.json"
LONGEST_NOTE = 300
"""Characters of a note for the log."""
MOST_MISTAKE_KINDS = 10
"""Mistakes of further kinds are not counted."""
PROGRAM = Path(inside.__file__)
PACKAGE = PROGRAM.parents[2]
_SHOWN_ARGUMENTS = ("command", "path", "pattern")
"""A line of progress shows the first of these that a call has."""


class Model(AgentProvider):
    """The agent ``model``: a model with tools, in a loop."""

    name = "model"
    keys = (KEY,)
    one_request = False
    info = AgentInfo(
        cli="",
        tools="run, read, search, edit, finish; allowed commands, split into words, with no shell",
        answer_checked_by="by this program",
        cost="tokens; dollars by `prices`",
        report_by="by the tool `finish`",
        hides_secrets=True,
    )

    def check(self, env: Mapping[str, str]) -> None:
        """Check that a model is named, and that a key or an endpoint is set."""
        if not self._settings.models.implement:
            raise build_config_error(
                "models.implement: name the model of your endpoint; the agent"
                f" {self.name} has no default"
            )
        if not (env.get(KEY) or env.get(BASE_URL) or self._settings.model_endpoint):
            raise NightshiftError(
                Code.PROVIDER_UNAVAILABLE,
                f"no model: set {KEY} as a masked CI variable, or model_endpoint to a server that"
                " needs no key",
            )

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """The gateway's address and the placeholder; the model's commands do not get them."""
        return {BASE_URL: base_url, KEY: placeholder}

    def build_files(self, task: BeadTask) -> dict[str, str]:
        """The input of the program in the sandbox (``bead_program.BeadSpec``), with no secret."""
        rates = merge_rates(self._settings.prices).get(task.model)
        spec = {
            "bead": task.bead,
            "model": task.model,
            "checkout": str(task.checkout),
            "handoff": str(task.handoff_file.parent),
            "schema": task.schema,
            "one_request": self.one_request,
            "edits": "Edit" in TOOLS[task.bead],
            "hidden": list(task.hidden),
            "allowed": list(task.allowed_commands),
            "any_command": task.any_command,
            "answer_tokens": self._settings.max_answer_tokens,
            "command_s": compute_command_s(self._settings),
            "usd": task.budget_usd,
            "tokens": task.budget_tokens,
            "seconds": task.left_s,
            "rates": [rates.input, rates.output] if rates else [0.0, 0.0],
        }
        return {SPEC_FILE: json.dumps(spec)}

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The command of the program in the sandbox (``inside.py``)."""
        return build_python_command(str(PROGRAM), str(task.handoff_file.with_name(SPEC_FILE)))

    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """The folders of this package and its Python."""
        return (PACKAGE, *list_interpreter_paths())

    def build_reader(self) -> OutputReader:
        """A new reader."""
        return ModelStreamReader()


class Patch(Model):
    """The agent ``patch``: a model without tools, asked once for each bead."""

    name = "patch"
    one_request = True
    info = AgentInfo(
        cli="",
        tools="none: it is shown files, and its blocks are applied exactly or not at all",
        answer_checked_by="by the endpoint if it knows json_schema, else by this program",
        cost="tokens; dollars by `prices`",
        report_by="as your answer, with no other text in it",
        runs_commands=False,
        hides_secrets=True,
    )


class ModelStreamReader(OutputLineReader):
    """Reads what the program in the sandbox prints; it is as hostile as any agent's output."""

    def __init__(self) -> None:
        super().__init__(0)
        self._result: dict[str, Any] = {}
        self._notes = dict[str, str]()
        self._mistakes = dict[str, int]()

    def _handle_event(self, event: dict[str, Any]) -> AgentProgress | None:
        self._record_event(event)
        text = _describe_event(event)
        return AgentProgress(text[:LONGEST_PROGRESS]) if text else None

    def _record_event(self, event: dict[str, Any]) -> None:
        kind, call_id = event.get("type"), str(event.get("id"))[:100]
        if kind == "result":
            self._result, self._last_message = event, as_text(event.get("said"))
        elif kind == "call":
            self._calls.add(call_id, event.get("tool"), event.get("input"))
        elif kind == "result_of":
            outcome = str(event.get("how"))
            failed = outcome not in ("ok", "exit status 0")
            self._calls.finish(call_id, outcome, event.get("output"), failed=failed)
        elif kind == "shown":
            for path in _list_files(event):
                self._calls.add(str(path)[-100:], "Read", {"file_path": path})
        elif kind == "mistake":
            mistake = clean_line(event.get("kind"), 60)
            if mistake in self._mistakes or len(self._mistakes) < MOST_MISTAKE_KINDS:
                self._mistakes[mistake] = self._mistakes.get(mistake, 0) + 1
        elif kind == "trimmed":
            tokens = str(event.get("tokens"))[:20]
            self._notes["trimmed"] = f"too much for this model: shortened to {tokens} tokens"
        elif kind == "repeated":  # an answer was cut off: the same request was sent again
            self._notes["repeated"] = clean_line(event.get("why"), LONGEST_NOTE)

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> BeadReport:
        """The report, with a note of what went wrong on the way."""
        counts = ", ".join(f"{count} × {kind}" for kind, count in self._mistakes.items())
        unusable = f"calls that could not be used: {counts}" if counts else ""
        note = "; ".join(filter(None, (*self._notes.values(), unusable)))
        return dataclasses.replace(super().build_report(ended, stderr), note=note)

    def _read_usage(self) -> Usage:
        return UNKNOWN_USAGE  # only the gateway counts them

    def _report_exit(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> BeadReport:
        result = self._result
        if not result:
            return self._report_missing_result(ended, usage, stderr)
        if result.get("ok") is True and ended.exit_status == 0:
            return BeadReport(BeadStatus.OK, usage, structured=result.get("structured"))
        status = BeadStatus.CRASHED
        if result.get("what") == "answer":
            status = BeadStatus.BAD_OUTPUT
        if result.get("what") == "endpoint" and result.get("status") in UNUSABLE_STATUSES:
            status = BeadStatus.UNAVAILABLE
        return BeadReport(status, usage, str(result.get("error"))[:2000])


def _list_files(event: Mapping[str, Any]) -> list[object]:
    files = event.get("files")
    return files if isinstance(files, list) else []


def _describe_event(event: Mapping[str, Any]) -> str:
    """A line of progress, "" for none."""
    match event.get("type"):
        case "shown":
            count, tokens = len(_list_files(event)), event.get("tokens")
            return f"shows the model {count} files, about {tokens} tokens"
        case "receiving":
            return f"the model answers: {event.get('characters')} characters"
        case "refused":
            return f"asks once more: {take_first_line(str(event.get('problem')), LONGEST_PROGRESS)}"
        case "call":
            call = describe_call(event.get("tool"), event.get("input"), _SHOWN_ARGUMENTS)
            return clean_line(call, LONGEST_PROGRESS)
        case "said":
            return take_first_line(str(event.get("text", "")), LONGEST_PROGRESS)
        case _:
            return ""
