"""A model behind Chat Completions, without an agent's CLI.

A small program of this package runs in the sandbox in the place of a CLI: as ``model`` it gives the
model tools, in a loop; as ``patch`` it asks once for each bead.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.agent import (
    STATUS_OF_END,
    TOOLS,
    UNUSABLE_STATUSES,
    AgentProgress,
    BeadTask,
    ProviderInfo,
    Report,
)
from gitlab_nightshift.agents.model import inside
from gitlab_nightshift.agents.reported_calls import ReportedCalls
from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gateway.prices import merge_rates
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.tool_calls import clean_line
from gitlab_nightshift.records.usage import NOT_KNOWN
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.sandbox.system_paths import build_python_command, list_interpreter_paths
from gitlab_nightshift.settings.model import Settings

KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
SPEC = "bead.json"
LONGEST_NOTE, MOST_KINDS = 300, 10
PROGRAM = Path(inside.__file__)
PACKAGE = PROGRAM.parents[2]


class Model:
    """The agent ``model``: a model with tools, in a loop."""

    name = "model"
    keys: tuple[str, ...] = (KEY,)
    one_request = False
    about = ProviderInfo(
        program="",
        tools="run, read, search, edit, finish; the allowed commands, by words, without a shell",
        answer="by this program",
        cost="tokens; dollars by `prices`",
        report_by="by the tool `finish`",
        runs_commands=True,
        hides_secrets=True,
    )

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, env: Mapping[str, str]) -> None:
        """A model, and a key or an endpoint that may need none."""
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

    def find_cloud_variables(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """None."""
        return ()

    def build_settings_env(self) -> dict[str, str]:
        """None."""
        return {}

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """The gateway's address, and the placeholder; the model's commands do not get them."""
        return {BASE_URL: base_url, KEY: placeholder}

    def build_files(self, task: BeadTask) -> dict[str, str]:
        """What the program is to do; nothing of it is secret."""
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
            # The bead is ended after so much silence.
            "command_s": max(self._settings.idle_timeout * 0.9, 1.0),
            "usd": task.budget_usd,
            "tokens": task.budget_tokens,
            "seconds": task.left_s,
            "rates": [rates.input, rates.output] if rates else [0.0, 0.0],
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


class Patch(Model):
    """The agent ``patch``: the same endpoint, asked once for each bead."""

    name = "patch"
    one_request = True
    about = ProviderInfo(
        program="",
        tools="none: it is shown files, and its blocks are applied exactly or not at all",
        answer="by the endpoint where it knows json_schema, else by this program",
        cost="tokens; dollars by `prices`",
        report_by="as your answer, with no other text in it",
        runs_commands=False,
        hides_secrets=True,
    )


class LineReader:
    """Reads what the program prints; hostile data like any agent's output."""

    def __init__(self) -> None:
        self._result: dict[str, Any] = {}
        self._notes = dict[str, str]()
        self._mistakes = dict[str, int]()
        self._calls = ReportedCalls()

    def read_line(self, raw: bytes) -> AgentProgress | None:
        """One JSON line."""
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            return None
        if not isinstance(event, dict):
            return None
        self._keep(event)
        text = _describe_event(event)
        return AgentProgress(text[:160]) if text else None

    def _keep(self, event: dict[str, Any]) -> None:
        kind, call_id = event.get("type"), str(event.get("id"))[:100]
        if kind == "result":
            self._result = event
        elif kind == "call":
            self._calls.add(call_id, event.get("tool"), event.get("input"))
        elif kind == "result_of":
            how = str(event.get("how"))
            failed = how not in ("ok", "exit status 0")
            self._calls.finish(call_id, how, event.get("output"), failed=failed)
        elif kind == "shown":
            files = event.get("files")
            for path in files if isinstance(files, list) else []:
                self._calls.add(str(path)[-100:], "Read", {"file_path": path})
        elif kind == "mistake":
            name = clean_line(event.get("kind"), 60)
            if name in self._mistakes or len(self._mistakes) < MOST_KINDS:
                self._mistakes[name] = self._mistakes.get(name, 0) + 1
        elif kind == "trimmed":
            most = str(event.get("tokens"))[:20]
            self._notes["trimmed"] = f"too much for this model: shortened to {most} tokens"
        elif kind == "repeated":
            self._notes["repeated"] = clean_line(event.get("why"), LONGEST_NOTE)

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> Report:
        """The status: what this program did to the process first, then what the process reported.

        Only the gateway knows the tokens.
        """
        told = ", ".join(f"{count} × {name}" for name, count in self._mistakes.items())
        notes = [
            *self._notes.values(),
            *([f"calls that could not be used: {told}"] if told else []),
        ]
        said = self._result.get("said")
        return dataclasses.replace(
            self._build_plain_report(ended, stderr),
            note="; ".join(filter(None, notes)),
            said=said if isinstance(said, str) else "",
            calls=self._calls.list_calls(),
            refused=self._calls.list_refused(),
            missing=self._calls.missing.names,
        )

    def _build_plain_report(self, ended: ProgramEnd, stderr: bytes) -> Report:
        usage = NOT_KNOWN
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
    if kind == "call":
        given = event.get("input")
        rows = given if isinstance(given, dict) else {}
        subject = next((rows[k] for k in ("command", "path", "pattern") if rows.get(k)), "")
        words = " ".join(map(str, subject)) if isinstance(subject, list) else str(subject)
        return clean_line(f"{event.get('tool')} {words}", 160)
    return str(event.get("text", "")).partition("\n")[0] if kind == "said" else ""


def _classify_failure(result: Mapping[str, Any]) -> BeadStatus:
    if result.get("what") == "answer":
        return BeadStatus.BAD_OUTPUT
    unusable = result.get("what") == "endpoint" and result.get("status") in UNUSABLE_STATUSES
    return BeadStatus.UNAVAILABLE if unusable else BeadStatus.CRASHED
