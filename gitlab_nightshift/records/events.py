"""What happens during a run, as typed events. Steps emit; only a sink prints or writes."""

import dataclasses
import json
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from gitlab_nightshift.records.bead_results import BeadResult, CommandResult
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.registry.sandbox_guarantees import ProbeSummary, Strength


@dataclass(frozen=True)
class RunStarted:
    """The first event: what will be done, where and within which limits."""

    project: str
    facts: tuple[str, ...]


@dataclass(frozen=True)
class StepStarted:
    """A step of some length, a section of the job log; ``key`` is a name without spaces."""

    key: str
    title: str


@dataclass(frozen=True)
class StepEnded:
    """The end of the step of this key, in one line."""

    key: str
    ok: bool
    text: str


@dataclass(frozen=True)
class Progress:
    """What an agent is doing: seconds since its bead began, usage of the whole run so far."""

    text: str
    elapsed_s: float
    cost_usd: float | None
    tokens: int | None


@dataclass(frozen=True)
class BeadEnded:
    """A bead's result."""

    result: BeadResult


@dataclass(frozen=True)
class CommandEnded:
    """A command that this program ran itself."""

    result: CommandResult


@dataclass(frozen=True)
class Note:
    """A fact worth a line; a warning where something is not as it should be."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class BoundaryChosen:
    """The sandbox of a run, before anything runs in it: the ``tier`` that ``isolation`` leads to,
    stronger ones with why they do not work here, and what was asked of it: the agent, files and
    folders of its CLI (``places``) and of ``agent_paths`` (``tools``), allowed ``hosts``."""

    isolation: str
    tier: str
    passed_over: tuple[tuple[str, str], ...]
    guarantees: tuple[Strength, ...]
    agent: str
    places: tuple[str, ...]
    tools: tuple[str, ...]
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class BoundaryProven:
    """What was tried from inside, before the first agent, and how the guarantees are kept then."""

    guarantees: tuple[Strength, ...]
    rows: tuple[ProbeSummary, ...]


@dataclass(frozen=True)
class RunEnded:
    """The last event: the one clear line."""

    result: RunResult


# --- of delegations, named as their callers know them -----------------------------------------


@dataclass(frozen=True)
class PhaseStart:
    """A phase of a delegation begins; Apply and Verify come once for each attempt."""

    phase: str
    attempt: int = 1


@dataclass(frozen=True)
class PhaseEnd:
    """Its end; ``why`` is "" where it went well."""

    phase: str
    ok: bool
    why: str = ""


@dataclass(frozen=True)
class CmdStart:
    """A program begins: an agent's (``agent: implement``) or a test's command line."""

    command: str


@dataclass(frozen=True)
class CmdEnd:
    """Its end; no exit status where this program ended it, or it could not be started."""

    command: str
    exit_status: int | None
    duration_s: float


@dataclass(frozen=True)
class ArtifactWritten:
    """A file or folder of the result, by its key there, or ``log``."""

    kind: str
    path: str


@dataclass(frozen=True)
class GateRequired:
    """Somebody has to approve."""

    gate: str
    why: str


@dataclass(frozen=True)
class GateApproved:
    """A gate is open; ``by`` says who opened it, or which setting."""

    gate: str
    by: str


@dataclass(frozen=True)
class GateDenied:
    """A gate stays closed."""

    gate: str
    why: str


Delegated = (
    PhaseStart
    | PhaseEnd
    | CmdStart
    | CmdEnd
    | ArtifactWritten
    | GateRequired
    | GateApproved
    | GateDenied
)
Event = (
    RunStarted
    | StepStarted
    | StepEnded
    | Progress
    | BeadEnded
    | CommandEnded
    | Note
    | BoundaryChosen
    | BoundaryProven
    | RunEnded
    | Delegated
)
Emit = Callable[[Event], None]
Record = TypeVar("Record")


def to_line(event: Event, now: datetime, run_id: str) -> str:
    """An event as one line of ``events.jsonl``."""
    time = now.isoformat(timespec="milliseconds")
    head = {"time": time, "run_id": run_id, "event": format_event_name(type(event))}
    return json.dumps({**head, **dataclasses.asdict(event)})


def format_event_name(kind: type[Any]) -> str:
    """The name of a kind of event: ``run_started``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def to_all(sinks: Iterable[Emit]) -> Emit:
    """One sink that passes each event on to several, whichever thread it comes from."""
    known, one_at_a_time = tuple(sinks), threading.RLock()

    def write(event: Event) -> None:
        with one_at_a_time:
            for sink in known:
                sink(event)

    return write


def format_elapsed(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def read_clock() -> float:
    """Monotonic seconds, for durations."""
    return time.monotonic()
