"""``events.jsonl``: each event of a run as a line of JSON, written as it happens. The file is read
for the status of a run, and for the result of a killed run.
"""

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import is_disk_full
from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.events import Event, Note, RunEnded, to_line
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.records.usage import Usage, add_usage
from gitlab_nightshift.system.file_names import open_to_append

EVENTS = "events.jsonl"
MOST_BYTES = 20_000_000


class EventFile:
    """A sink that appends each event to a file, with the run's id.

    The file has at most ``MOST_BYTES``, and the run's last event. Events that do not fit, also on a
    full disk, are counted: a note before the next one that fits says how many are missing.
    """

    def __init__(self, path: Path, redact: Callable[[str], str], run_id: str) -> None:
        self._path, self._redact, self._run_id = path, redact, run_id
        self._size = self._missing = 0

    def __call__(self, event: Event) -> None:
        if self._size >= MOST_BYTES and not isinstance(event, RunEnded):
            self._missing += 1
            return
        lines = self._encode(map_texts(event, self._redact))
        if self._missing:
            text = f"{self._missing} events are missing here: full disk, or more than is kept"
            lines = self._encode(Note(text, warning=True)) + lines
        self._append(lines)

    def _append(self, lines: bytes) -> None:
        try:
            with open_to_append(self._path) as file:
                # Unbuffered: a disk that fills up takes a part of the lines (write(2)).
                if file.write(lines) < len(lines):
                    raise OSError(errno.ENOSPC, "no space left")
        except OSError as error:
            if not is_disk_full(error):
                raise
            self._missing += 1
            with contextlib.suppress(FileNotFoundError):
                os.truncate(self._path, self._size)  # half a line is not JSON
        else:
            self._size, self._missing = self._size + len(lines), 0

    def _encode(self, event: Event) -> bytes:
        return to_line(event, datetime.now(UTC), self._run_id).encode() + b"\n"


LONGEST_LINE = 2_000_000
MOST_BEADS, LARGEST_AMOUNT = 1_000, 1e15
"""Limits when reading: bytes of a line; beads; dollars or tokens of one bead."""


@dataclass
class EventSummary:
    """What the events say about a run.

    ``started`` and ``ended``: the file has the run's first and last event. ``tier`` is the
    sandbox's. ``phase`` is a delegation's current phase, which began at ``since`` (ISO 8601).
    ``times`` are those of the first and the latest event, ``beads`` have ended. ``running_usage``
    is the run's usage as a running bead last reported it, None if no bead is running.
    """

    run_id: str = ""
    started: bool = False
    ended: bool = False
    project: str = ""
    tier: str = "none"
    phase: str | None = None
    since: str | None = None
    times: list[datetime] = field(default_factory=list)
    beads: list[BeadResult] = field(default_factory=list)
    running_usage: Usage | None = None

    @property
    def usage(self) -> Usage:
        """The run's usage so far: as the running bead reported it, or the sum of ended beads."""
        return self.running_usage or add_usage(bead.usage for bead in self.beads)

    @property
    def duration_s(self) -> float:
        """From the first event to the last."""
        return max(0.0, (self.times[-1] - self.times[0]).total_seconds()) if self.times else 0.0


def read_summary(path: Path) -> EventSummary:
    """Summarize what a run has written so far; invalid lines are skipped. Raises OSError."""
    summary = EventSummary()
    with contextlib.suppress(FileNotFoundError):
        for event in _read_events(path):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                _add(summary, event)
    return summary


def _read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a file, up to the first incomplete line."""
    with path.open("rb") as file:
        # Twice the limit: the last event of a run is written even if the file is full.
        while file.tell() < 2 * MOST_BYTES:
            line = file.readline(LONGEST_LINE)
            if not line.endswith(b"\n"):
                return
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(event := json.loads(line), dict):
                    yield event


def _add(summary: EventSummary, event: dict[str, Any]) -> None:
    """Add an event. Raises ValueError, KeyError, TypeError for an invalid one."""
    name, time = event["event"], datetime.fromisoformat(event["time"]).astimezone(UTC)
    summary.run_id = str(event.get("run_id", ""))[:1000]
    summary.times = [*summary.times[:1], time]
    summary.started = summary.started or name == "run_started"
    summary.ended = summary.ended or name == "run_ended"
    if name == "run_started":
        summary.project = str(event["project"])[:1000]
    elif name == "phase_start":
        summary.phase, summary.since = str(event["phase"])[:100], event["time"]
    elif name == "boundary_chosen":
        summary.tier = str(event["tier"])[:100]
    elif name == "bead_ended" and len(summary.beads) < MOST_BEADS:
        summary.beads.append(make_record(BeadResult, event["result"]))
        summary.running_usage = None
    elif name == "progress":
        cost_usd, tokens = _parse_amount(event["cost_usd"]), _parse_amount(event["tokens"])
        summary.running_usage = Usage(cost_usd, None if tokens is None else int(tokens))


def _parse_amount(value: object) -> float | None:
    """An amount, None if unknown. Raises ValueError."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value <= LARGEST_AMOUNT:
        raise ValueError("not an amount")
    return float(value)
