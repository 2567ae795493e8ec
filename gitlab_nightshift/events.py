"""What happens during a run, as typed events. Steps emit; only a sink prints or writes."""

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, AnyStr, TypeVar, cast

from gitlab_nightshift.records import BeadResult, CommandResult, RunResult


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


REDACTED = "[redacted]"
CHUNK = 1 << 20

Span = tuple[int, int]
Record = TypeVar("Record")


@dataclass(frozen=True, repr=False)
class Redactor:
    """Takes the exact values of the job's secrets out, also as they stand in JSON."""

    values: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """The text with every secret replaced; of secrets that overlap nothing is left."""
        return _without(text, _spans(text, self._forms), REDACTED)

    def file(self, source: Path, target: Path) -> None:
        """Copy a file without the secrets, in bounded memory, also where one is cut by a chunk."""
        forms = [form.encode("utf-8", "surrogateescape") for form in self._forms]
        keep = max(map(len, forms), default=1) - 1
        # ``rest`` may be the beginning of a secret; ``gone`` bytes of it are the end of one.
        rest, gone, more = b"", 0, True
        with source.open("rb") as old, target.open("wb") as new:
            while more:
                chunk = old.read(CHUNK)
                more, text = bool(chunk), rest + chunk
                cut = max(len(text) - keep, 0) if more else len(text)
                spans = _merged([(0, gone), *_spans(text, forms)])
                new.write(_without(text[:cut], spans, REDACTED.encode(), gone))
                rest = text[cut:]
                gone = max([0, *(end - cut for start, end in spans if start < cut)])

    @cached_property
    def _forms(self) -> tuple[str, ...]:
        known = [value for value in self.values if value]
        in_json = (
            json.dumps(v, ensure_ascii=plain)[1:-1] for v in known for plain in (True, False)
        )
        return tuple(dict.fromkeys([*known, *in_json]))


def _spans(text: AnyStr, values: Iterable[AnyStr]) -> list[Span]:
    found: list[Span] = []
    for value in values:
        start = text.find(value)
        while start >= 0:
            found.append((start, start + len(value)))
            start = text.find(value, start + 1)
    return _merged(found)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def _without(text: AnyStr, spans: Iterable[Span], mark: AnyStr, gone: int = 0) -> AnyStr:
    """The text with the spans replaced; one that begins before ``gone`` has its mark already."""
    parts, at = [text[:0]], 0
    for start, end in spans:
        if start >= len(text):
            break
        parts += [text[at:start], text[:0] if start < gone else mark]
        at = end
    parts.append(text[at:])
    return text[:0].join(parts)


def redacted(record: Record, redact: Callable[[str], str]) -> Record:
    """A record or event with every text in it redacted, before it is cut, escaped or joined."""
    done: Any = record
    if isinstance(record, str) and not isinstance(record, Enum):
        done = redact(record)
    elif isinstance(record, tuple):
        done = tuple(redacted(part, redact) for part in record)
    elif dataclasses.is_dataclass(record) and not isinstance(record, type):
        parts = {
            f.name: redacted(getattr(record, f.name), redact) for f in dataclasses.fields(record)
        }
        done = dataclasses.replace(record, **parts)
    return cast(Record, done)


def to_line(event: Event, now: datetime) -> str:
    """An event as one line of ``events.jsonl``."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    data: dict[str, Any] = {"time": now.isoformat(timespec="milliseconds"), "event": name}
    return json.dumps({**data, **dataclasses.asdict(event)})


def json_lines(path: Path, redact: Callable[[str], str]) -> Emit:
    """A sink that appends every event to a file as it happens."""

    def write(event: Event) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(to_line(redacted(event, redact), datetime.now(UTC)) + "\n")

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
