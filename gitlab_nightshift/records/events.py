"""Typed events of a run. A step emits them; only a sink prints or writes one."""

import dataclasses
import json
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from gitlab_nightshift.records.bead_results import BeadResult, CommandResult
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.registry.sandbox_guarantees import ProbeSummary, Strength

AGENT = "agent: "
"""Prefix of a program that is an agent; the bead follows."""


@dataclass(frozen=True)
class Event:
    """Something that happens during a run, a night or a delegation."""


Emit = Callable[[Event], None]


@dataclass(frozen=True)
class RunStarted(Event):
    """The first event: what will be done, where and within which limits."""

    project: str
    facts: tuple[str, ...]


@dataclass(frozen=True)
class StepStarted(Event):
    """A step begins, a section of the job log; ``key`` is a name without spaces. A delegation's
    ``phase`` contains other steps; Apply and Verify come once for each ``attempt``."""

    key: str
    title: str
    phase: bool = False
    attempt: int = 1


@dataclass(frozen=True)
class StepEnded(Event):
    """A step ended; ``text`` sums it up in one line, "" for a ``phase`` that is ok."""

    key: str
    ok: bool
    text: str
    phase: bool = False


@dataclass(frozen=True)
class ProgramStarted(Event):
    """A program starts: an agent's (``agent: implement``) or a command line."""

    command: str


@dataclass(frozen=True)
class ProgramEnded(Event):
    """A program ended. ``exit_status`` is None if nightshift ended it, or could not start it."""

    command: str
    exit_status: int | None
    duration_s: float


@dataclass(frozen=True)
class Progress(Event):
    """A line on what an agent is doing, with the seconds since its bead began and the usage of the
    whole run so far."""

    text: str
    elapsed_s: float
    cost_usd: float | None
    tokens: int | None


@dataclass(frozen=True)
class BeadEnded(Event):
    """A bead's result."""

    result: BeadResult


@dataclass(frozen=True)
class CommandEnded(Event):
    """The result of a command that this program ran itself, perhaps twice."""

    result: CommandResult


@dataclass(frozen=True)
class Note(Event):
    """A line for the log, perhaps a warning."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class BoundaryChosen(Event):
    """The sandbox of a run, before anything runs in it: the ``tier`` that the setting ``isolation``
    leads to, and the stronger ones that do not work here, with the reasons (``passed_over``).

    The sandbox contains the ``agent``, the paths of the agent's CLI (``places``) and those of
    ``agent_paths`` (``tools``), and lets it reach ``hosts``.
    """

    isolation: str
    tier: str
    passed_over: tuple[tuple[str, str], ...]
    guarantees: tuple[Strength, ...]
    agent: str
    places: tuple[str, ...]
    tools: tuple[str, ...]
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class BoundaryProven(Event):
    """The attempts that were made inside the sandbox before the first agent, as ``rows`` of a
    table, and the guarantees that they prove."""

    guarantees: tuple[Strength, ...]
    rows: tuple[ProbeSummary, ...]


@dataclass(frozen=True)
class ArtifactWritten(Event):
    """A file or folder is written; ``kind`` is its key in a delegation's result, or ``log``."""

    kind: str
    path: str


@dataclass(frozen=True)
class GateRequired(Event):
    """Somebody has to approve."""

    gate: str
    why: str


@dataclass(frozen=True)
class GateApproved(Event):
    """A gate is open; ``by`` says who opened it, or which setting."""

    gate: str
    by: str


@dataclass(frozen=True)
class GateDenied(Event):
    """A gate stays closed."""

    gate: str
    why: str


@dataclass(frozen=True)
class RunEnded(Event):
    """The last event."""

    result: RunResult


def to_line(event: Event, now: datetime, run_id: str) -> str:
    """An event as one line of ``events.jsonl``."""
    # Phases and programs have fixed names and keys there (docs/delegation.md).
    time = now.isoformat(timespec="milliseconds")
    head = {"time": time, "run_id": run_id, "event": format_event_name(event)}
    keys = list_line_formats(type(event))[head["event"]]
    fields = dataclasses.asdict(event).items()
    return json.dumps({**head, **{keys[name]: value for name, value in fields if name in keys}})


_STEP_FIELDS = {name: name for name in ("key", "title", "ok", "text")}
_PHASE_FIELDS = {"key": "phase", "attempt": "attempt", "ok": "ok", "text": "why"}
_PHASE_NAMES = {"step_started": "phase_start", "step_ended": "phase_end"}
_PROGRAM_NAMES = {"program_started": "cmd_start", "program_ended": "cmd_end"}


def list_line_formats(kind: type[Event]) -> dict[str, dict[str, str]]:
    """How ``events.jsonl`` shows a class of events: the event's name there → field → JSON key."""
    name, fields = format_class_name(kind), [field.name for field in dataclasses.fields(kind)]
    if name not in _PHASE_NAMES:
        return {_PROGRAM_NAMES.get(name, name): {field: field for field in fields}}
    # With ``phase`` True, an event of this class is shown under another name, with other keys.
    formats = {name: _STEP_FIELDS, _PHASE_NAMES[name]: _PHASE_FIELDS}
    return {
        shown_name: {field: keys[field] for field in fields if field in keys}
        for shown_name, keys in formats.items()
    }


def format_event_name(event: Event) -> str:
    """The name of an event in ``events.jsonl``, and in the lists of events that a process may send
    (``wire/channel.py``)."""
    name = format_class_name(type(event))
    names = _PHASE_NAMES if getattr(event, "phase", False) else _PROGRAM_NAMES
    return names.get(name, name)


def format_class_name(kind: type[Event]) -> str:
    """The name of a class of events in messages between processes, such as ``run_started``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def combine_sinks(sinks: Iterable[Emit]) -> Emit:
    """A thread-safe sink that passes each event to all ``sinks``."""
    targets, lock = tuple(sinks), threading.RLock()

    def emit(event: Event) -> None:
        with lock:
            for sink in targets:
                sink(event)

    return emit


def format_elapsed(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    minutes, whole_seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole_seconds:02}" if hours else f"{minutes}:{whole_seconds:02}"


def read_clock() -> float:
    """Monotonic seconds, for durations."""
    return time.monotonic()
