"""The one-way pipes to the redactor: frames with events, logs and records.

The redactor never answers: an answer could reveal what is a secret.
"""

import dataclasses
import json
import os
import re
import select
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.codec import InvalidRecordError, decode_json, make_record
from gitlab_nightshift.records.events import (
    Event,
    Note,
    StepEnded,
    StepStarted,
    format_class_name,
    format_event_name,
)
from gitlab_nightshift.system.signals import defer_signals
from gitlab_nightshift.text.lazy_patterns import compile_lazily

# --- frames ---------------------------------------------------------------------------------------


LARGEST_FRAME = 1 << 20
"""Bytes of a frame's payload. Larger data is sent in parts."""
_HEADER = struct.Struct(">IB")
"""The length of the payload, and the kind of the frame."""


class FrameKind(IntEnum):
    """The kind of a frame. Payloads are JSON, except those of ``PART`` and ``DATA``. ``DATA`` has a
    log's number in eight bytes, and the next bytes of that log.

    A large event is sent as ``PART`` frames and an ``EVENT`` frame with the rest of it; a record as
    ``PART`` frames and a ``RECORD`` frame with its name.
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
    """A received frame."""

    kind: FrameKind
    payload: bytes


class ProtocolError(Exception):
    """A sender violated the format of frames; the message says how."""


def encode_frame(kind: FrameKind, payload: bytes) -> bytes:
    """The bytes of a frame. Raises ValueError if the payload is larger than ``LARGEST_FRAME``."""
    if len(payload) > LARGEST_FRAME:
        raise ValueError("the payload is too large for a frame")
    return _HEADER.pack(len(payload), kind) + payload


def split_payload(data: bytes, size: int = LARGEST_FRAME) -> list[bytes]:
    """Split data into payloads of at most ``size`` bytes; one empty payload for no data."""
    return [data[start : start + size] for start in range(0, max(len(data), 1), size)]


class FrameReader:
    """Collects the bytes of a pipe, and yields each frame once it is complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def unread_bytes(self) -> int:
        """The number of bytes of an incomplete frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete. Do not call it again after a ProtocolError."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _HEADER.size:
                length, kind = _check_header(*_HEADER.unpack_from(self._buffer, start))
                end = start + _HEADER.size + length
                if end > len(self._buffer):
                    break
                payload = bytes(self._buffer[start + _HEADER.size : end])
                start = end
                yield Frame(kind, payload)
        finally:
            # Deleting after each of many small frames would move the remaining bytes each time.
            del self._buffer[:start]


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
EVENT_CLASSES = {format_class_name(event): event for event in Event.__subclasses__()}
# Events that each process may send, by their names in events.jsonl. An agent may control work: that
# may not report the start or the end of a run, or an approval.
_STEPS = ("step_started", "step_ended", "note")
_PHASES = ("phase_start", "phase_end", "note")
FROM_NOTIFY = ("note",)
FROM_SUPERVISOR = ("note", "run_ended")
FROM_PUBLISH = (*_STEPS, "gate_required")
FROM_PLAN = ("run_started", *_STEPS)
_PROGRAMS = ("cmd_start", "cmd_end", "command_ended")
FROM_WORK = (*_STEPS, "progress", "bead_ended", *_PROGRAMS, "boundary_chosen", "boundary_proven")
FROM_NOTARY = (*_STEPS, "command_ended")
# The processes of a delegation; the one that does the work is called task.
FROM_PREPARE = (*_PHASES, "gate_required", "gate_approved", "gate_denied")
FROM_TASK = (*FROM_WORK, *_PHASES)
FROM_FINISH = (*_PHASES, "gate_required", "gate_approved", "artifact_written")
# A step's key is the name of a section in GitLab's job log, which allows these characters
# (https://docs.gitlab.com/ci/jobs/job_logs, "Custom collapsible sections").
_SECTION_KEY = compile_lazily(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


def encode_event(event: Event) -> bytes:
    """An event as JSON in UTF-8."""
    return _encode_json({"event": format_class_name(type(event)), **dataclasses.asdict(event)})


def _encode_json(value: Any) -> bytes:
    # "surrogatepass": undecodable bytes of file names are surrogates in str (PEP 383).
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def decode_event(data: bytes, allowed: tuple[str, ...]) -> Event:
    """Decode an event. Raises InvalidRecordError, also for an event whose name in ``events.jsonl``
    is not in ``allowed``."""
    value = decode_json(data)
    name = value.pop("event", None) if type(value) is dict else None
    if type(name) is not str or name not in EVENT_CLASSES:
        raise InvalidRecordError("an unknown event")
    event = make_record(EVENT_CLASSES[name], value)
    if (line_name := format_event_name(event)) not in allowed:
        raise InvalidRecordError(f"{line_name}: this sender may not send it")
    if isinstance(event, StepStarted | StepEnded) and not _SECTION_KEY.fullmatch(event.key):
        raise InvalidRecordError(f"{name}: invalid section key")
    return event


# --- the redactor's configuration -----------------------------------------------------------------


@dataclass(frozen=True)
class Sender:
    """A process that sends to the redactor; ``descriptor`` is the read end of its pipe. It may send
    the ``events`` of these names (such as ``FROM_WORK``), the ``records``, which are pairs of a
    file name in the results and a kind of ``received_files.KINDS``, and logs if ``logs`` is True.
    ``awaited``: the run must wait for this sender."""

    name: str
    descriptor: int
    events: tuple[str, ...]
    records: tuple[tuple[str, str], ...] = ()
    logs: bool = False
    awaited: bool = False


@dataclass(frozen=True)
class RedactorConfig:
    """The redactor's configuration. ``values`` are the job's secrets. ``results`` and ``logs`` are
    existing folders; the reserve for a full disk lies beside ``logs``. ``sections`` and ``colour``
    format the job log, which is written to the descriptor ``output``. When all messages of a sender
    are written, its name is written to the descriptor ``ended``, as a line. ``live`` is the
    descriptor of a second folder for the events.

    ``senders`` are read in this order if several have sent something. So they are listed in the
    order in which they start.
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


# --- the sender's side ----------------------------------------------------------------------------


# A control character takes six bytes in JSON ("\u0000": RFC 8259, 7), so 900,000 at most.
LONGEST_LOG_TEXT = 150_000
"""Characters of a text log: even if all are escaped, it fits into one frame."""


class OutputChannel:
    """The write end of a pipe to the redactor, for all threads of a process. Calling it sends an
    event.

    If the pipe is full, the caller waits. If the redactor has ended, or has cut this sender off,
    the next message raises NightshiftError (``E_INTERNAL``), and ``gone`` is True: later messages
    are dropped, so that clean-up can go on. After an ``Interruption`` by a signal, the next message
    first sends the rest of the interrupted one.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)  # a blocking write would delay the signal handlers
        os.set_inheritable(descriptor, False)
        self._descriptor, self._unsent = descriptor, bytearray()
        self._lock = threading.Lock()
        self._next_log = 0
        self.gone = False

    def __call__(self, event: Event) -> None:
        """Send an event."""
        data = encode_event(event)
        if len(data) > LARGEST_EVENT:
            text = f"an event of {len(data)} bytes is left out: {type(event).__name__}"
            data = encode_event(Note(text, warning=True))
        *parts, last = split_payload(data)
        self._send(*((FrameKind.PART, part) for part in parts), (FrameKind.EVENT, last))

    def send_record(self, name: str, data: bytes) -> None:
        """Send a file of the results; it replaces an earlier one of this name."""
        parts = split_payload(data) if data else []
        self._send(
            *((FrameKind.PART, part) for part in parts), (FrameKind.RECORD, _encode_json(name))
        )

    def send_text(self, name: str, text: str) -> None:
        """Send a text of this program, such as a traceback, as a log; of a long one the end."""
        data = _encode_json({"name": name, "text": text[-LONGEST_LOG_TEXT:]})
        self._send((FrameKind.TEXT, data))

    def open_logs(self, *names: str) -> int:
        """Open logs that share one size limit. Returns the number of the first one, for ``log`` and
        ``close_logs``; the others have the next numbers."""
        with self._lock:
            first = self._next_log
            self._next_log += len(names)
        self._send((FrameKind.OPEN, _encode_json({"first": first, "names": names})))
        return first

    def log(self, number: int, data: bytes) -> None:
        """Send the next bytes of a log."""
        prefix = number.to_bytes(8, "big")
        for part in split_payload(data, LARGEST_FRAME - len(prefix)):
            self._send((FrameKind.DATA, prefix + part))

    def close_logs(self, first: int) -> None:
        """Close the logs that were opened together; ``first`` is the number of the first one."""
        self._send((FrameKind.CLOSE, _encode_json({"first": first})))

    def rename_log(self, old: str, new: str) -> None:
        """Give a closed log another name."""
        self._send((FrameKind.RENAME, _encode_json({"old": old, "new": new})))

    def close(self) -> None:
        """Send the rest of an interrupted message, and close the pipe."""
        self._send()
        os.close(self._descriptor)
        self.gone = True

    def _send(self, *frames: tuple[FrameKind, bytes]) -> None:
        data = b"".join(encode_frame(kind, payload) for kind, payload in frames)
        # Locked for all frames of a message, so that those of two threads cannot be mixed.
        with self._lock:
            if self.gone:
                return
            with defer_signals():
                self._unsent += data
            try:
                self._flush()
            except OSError as error:
                self.gone = True
                text = f"the redactor has ended ({error.strerror}): nothing can be logged or kept"
                raise NightshiftError(Code.INTERNAL, text) from None

    def _flush(self) -> None:
        """Write all unsent bytes. Signals are handled between two writes, and while the pipe is
        full."""
        ready = select.poll()
        ready.register(self._descriptor, select.POLLOUT)
        while self._unsent:
            ready.poll()
            # Without this, a signal between write and del would cause the bytes to be sent twice.
            with defer_signals():
                try:
                    del self._unsent[: os.write(self._descriptor, self._unsent[: 1 << 16])]
                except BlockingIOError:
                    continue
