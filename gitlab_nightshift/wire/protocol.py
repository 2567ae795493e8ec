"""What goes over the pipes to the redactor: frames, the events in them, and who may send which."""

import dataclasses
import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from gitlab_nightshift.records.codec import InvalidRecordError, decode_json, make_record
from gitlab_nightshift.records.events import (
    Event,
    StepEnded,
    StepStarted,
    format_class_name,
    format_event_name,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

# --- frames ---------------------------------------------------------------------------------------


LARGEST_FRAME = 1 << 20
"""Bytes of a payload. Larger data is sent in parts."""
_HEAD = struct.Struct(">IB")


class FrameKind(IntEnum):
    """The kind of a frame. Payloads are JSON, except those of ``PART`` and ``DATA``. ``DATA`` has a
    log's number in eight bytes, and more of that log.

    An event or a record may be split into any number of ``PART``; its last frame is ``EVENT``, with
    the rest of it, or ``RECORD``, with its name.
    """

    PART = 1
    EVENT = 2
    RECORD = 3
    OPEN = 4
    DATA = 5
    CLOSE = 6
    RENAME = 7
    TEXT = 8


@dataclass(frozen=True)
class Frame:
    """One message."""

    kind: FrameKind
    payload: bytes


class ProtocolError(Exception):
    """A sender violates the framing; the text says how."""


def encode_frame(kind: FrameKind, payload: bytes) -> bytes:
    """A frame as it is sent; its payload has at most ``LARGEST_FRAME`` bytes."""
    if len(payload) > LARGEST_FRAME:
        raise ValueError("the payload is too large for a frame")
    return _HEAD.pack(len(payload), kind) + payload


def split(data: bytes, most: int = LARGEST_FRAME) -> list[bytes]:
    """The data in payloads of at most ``most`` bytes; at least one payload."""
    return [data[start : start + most] for start in range(0, max(len(data), 1), most)]


class FrameReader:
    """Collects bytes, and yields the frames that they complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes of an incomplete frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete. Raises ProtocolError; then it is unusable."""
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= _HEAD.size:
                length, kind = _check_header(*_HEAD.unpack_from(self._buffer, at))
                end = at + _HEAD.size + length
                if end > len(self._buffer):
                    break
                payload = bytes(self._buffer[at + _HEAD.size : end])
                at = end
                yield Frame(kind, payload)
        finally:
            del self._buffer[:at]


def _check_header(length: int, kind: int) -> tuple[int, FrameKind]:
    if length > LARGEST_FRAME:
        raise ProtocolError(f"a message of {length} bytes")
    try:
        return length, FrameKind(kind)
    except ValueError:
        raise ProtocolError(f"a message of the unknown kind {kind}") from None


# --- events ---------------------------------------------------------------------------------------


LARGEST_EVENT = 8 * 1024 * 1024
"""Bytes: the largest hand-off with every character escaped."""
KINDS: dict[str, type[Event]] = {format_class_name(kind): kind for kind in Event.__subclasses__()}
_STEPS = ("step_started", "step_ended", "note")
_PHASES = ("phase_start", "phase_end", "note")
FROM_NOTIFY = ("note",)
FROM_SUPERVISOR = ("note", "run_ended")
FROM_PUBLISH = (*_STEPS, "gate_required")
FROM_PLAN = ("run_started", *_STEPS)
FROM_WORK = (
    *(*_STEPS, "progress", "bead_ended", "cmd_start", "cmd_end", "command_ended"),
    *("boundary_chosen", "boundary_proven"),
)
"""Events that each process of a run may send, by their names in ``events.jsonl``. An agent may
control work: it may not report the start or end of a run, or an approval."""
FROM_NOTARY = (*_STEPS, "command_ended")
FROM_PREPARE = (*_PHASES, "gate_required", "gate_approved", "gate_denied")
FROM_TASK = (*FROM_WORK, *_PHASES)
FROM_FINISH = (*_PHASES, "gate_required", "gate_approved", "artifact_written")
"""Events that each process of a delegation may send; task is its work."""
_KEY = compile_lazily(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


def encode_event(event: Event) -> bytes:
    """An event as JSON in UTF-8; bytes of file names that are not UTF-8 stay as they are."""
    data = {"event": format_class_name(type(event)), **dataclasses.asdict(event)}
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def decode_event(data: bytes, allowed: tuple[str, ...]) -> Event:
    """Decode an event with one of the allowed names. Raises InvalidRecordError."""
    value = decode_json(data)
    name = value.pop("event", None) if type(value) is dict else None
    if type(name) is not str or name not in KINDS:
        raise InvalidRecordError("an unknown event")
    event = make_record(KINDS[name], value)
    if (written := format_event_name(event)) not in allowed:
        raise InvalidRecordError(f"{written}: this sender may not send it")
    if isinstance(event, StepStarted | StepEnded) and not _KEY.fullmatch(event.key):
        raise InvalidRecordError(f"{name}: invalid section key")
    return event


# --- the redactor's configuration -----------------------------------------------------------------


@dataclass(frozen=True)
class Sender:
    """The process that sends on the pipe ``descriptor``, and what it may send: ``events`` by name
    (``FROM_WORK``), ``records`` as pairs of a name in the results and a kind
    (``received_files.KINDS``), and ``logs``. ``awaited``: the run must wait for this sender."""

    name: str
    descriptor: int
    events: tuple[str, ...]
    records: tuple[tuple[str, str], ...] = ()
    logs: bool = False
    awaited: bool = False


@dataclass(frozen=True)
class Configuration:
    """``values`` are the job's secrets. ``results`` and ``logs`` are existing folders; the reserve
    for a full disk lies beside ``logs``. The job log goes to the descriptor ``output``, and the
    name of each sender, a line, to ``ended`` once all that it sent is written.
    ``live`` is a folder, as a descriptor, into which events are written as well.

    Of senders that wait at the same time the first ones are read first. So the one that reports the
    start of the run comes first, then the others in the order in which they start.
    """

    run_id: str
    values: tuple[str, ...]
    results: str
    logs: str
    sections: bool
    colour: bool
    output: int
    ended: int
    live: int | None
    senders: tuple[Sender, ...]
