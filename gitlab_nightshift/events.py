"""What happens during a run, as typed events. Steps emit; only a sink prints or writes."""

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gitlab_nightshift.records import BeadResult, CommandResult, RunResult

REDACTED = "[redacted]"


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
class RunEnded:
    """The last event: the one clear line."""

    result: RunResult


Event = RunStarted | StepStarted | StepEnded | Progress | BeadEnded | CommandEnded | Note | RunEnded
Emit = Callable[[Event], None]


@dataclass(frozen=True, repr=False)
class Redactor:
    """Takes the exact values of the job's secrets out of a text."""

    values: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """The text with every secret replaced."""
        return self._pattern().sub(REDACTED, text) if self.values else text

    def file(self, source: Path, target: Path) -> None:
        """Copy a file without the secrets, in bounded memory, also where one is cut by a chunk."""
        keep = max((len(v.encode()) for v in self.values), default=1) - 1
        pattern = re.compile(self._pattern().pattern.encode()) if self.values else None
        with source.open("rb") as old, target.open("wb") as new:
            rest = b""
            while chunk := old.read(1 << 20):
                text = rest + chunk
                text = pattern.sub(REDACTED.encode(), text) if pattern else text
                cut = max(len(text) - keep, 0)
                new.write(text[:cut])
                rest = text[cut:]
            new.write(rest)

    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(value) for value in self.values))


def to_line(event: Event, now: datetime) -> str:
    """An event as one line of ``events.jsonl``."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    data: dict[str, Any] = {"time": now.isoformat(timespec="milliseconds"), "event": name}
    return json.dumps({**data, **dataclasses.asdict(event)})


def json_lines(path: Path, redact: Callable[[str], str]) -> Emit:
    """A sink that appends every event to a file as it happens."""

    def write(event: Event) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(redact(to_line(event, datetime.now(UTC))) + "\n")

    return write


def to_all(sinks: Iterable[Emit]) -> Emit:
    """One sink that passes each event on to several."""
    known = tuple(sinks)

    def write(event: Event) -> None:
        for sink in known:
            sink(event)

    return write


def elapsed(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def cost(usd: float | None, tokens: int | None) -> str:
    """Cost and tokens in words that fit a log line; unknown stays unknown."""
    money = "cost unknown" if usd is None else f"${usd:.2f}"
    if tokens is None:
        return money
    return (
        f"{money}, {tokens / 1000:.0f}k tokens" if tokens >= 1000 else f"{money}, {tokens} tokens"
    )


def now_s() -> float:
    """Monotonic seconds, for durations."""
    return time.monotonic()
