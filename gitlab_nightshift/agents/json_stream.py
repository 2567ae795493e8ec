"""What the readers of two CLIs' JSON lines share.

Every line is hostile data: of any shape, of any size, perhaps no JSON at all.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from gitlab_nightshift.agents.agent import STATUS_OF_END, AgentProgress, Report
from gitlab_nightshift.agents.reported_calls import ReportedCalls
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import ProgramEnd


class JsonStreamReader(ABC):
    """Reads one bead's events and keeps of them only what the report needs. ``patience_s``: seconds
    for which the endpoint may fail without a break."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s, self._failing_since = patience_s, 0.0
        self._unusable = self._said = ""
        self._json_lines = self._other_lines = 0
        self._calls = ReportedCalls()

    @abstractmethod
    def _handle_event(self, event: dict[str, Any]) -> AgentProgress | None: ...

    @abstractmethod
    def _read_usage(self) -> Usage: ...

    @abstractmethod
    def _report_own_end(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> Report:
        """What the CLI says of its end."""

    def read_line(self, raw: bytes) -> AgentProgress | None:
        """One JSON line; a line that is not JSON is counted."""
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            self._other_lines += bool(raw.strip())
            return None
        self._json_lines += 1
        return self._handle_event(event)

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> Report:
        """The status: what this program did to the process first, then what the CLI says."""
        usage = self._read_usage()
        return replace(
            self._report_stop(ended, usage) or self._report_own_end(ended, usage, stderr),
            said=self._said,
            calls=self._calls.list_calls(),
            refused=self._calls.list_refused(),
            missing=self._calls.missing.names,
        )

    def _report_stop(self, ended: ProgramEnd, usage: Usage) -> Report | None:
        if self._unusable:
            return Report(BeadStatus.UNAVAILABLE, usage, self._unusable)
        if ended.end not in STATUS_OF_END:
            return None
        status, error = STATUS_OF_END[ended.end]
        if self._failing_since and status in (BeadStatus.IDLE, BeadStatus.TIMEOUT):
            status, error = BeadStatus.UNAVAILABLE, "the model endpoint did not answer"
        return Report(status, usage, error)

    def _report_missing_end(self, ended: ProgramEnd, usage: Usage, stderr: bytes) -> Report:
        """What became of a CLI that did not say so itself."""
        last = (stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        if ended.exit_status == 0 or (self._other_lines and not self._json_lines):
            error = f"the CLI printed no result (exit status {ended.exit_status}) {last}"
            return Report(BeadStatus.BAD_OUTPUT, usage, error.strip())
        return Report(BeadStatus.CRASHED, usage, f"the CLI ended with {ended.how} {last}".strip())

    def _measure_failing(self) -> float:
        """Seconds for which the endpoint has failed, from now on if it did not before."""
        self._failing_since = self._failing_since or read_clock()
        return read_clock() - self._failing_since
