"""The redactor: the process that knows all secret values, to redact them.

Each other process sends it through a pipe what to log and store. It alone writes the job log and
the artifacts, and never answers. It ignores signals, and ends when all senders have ended.
"""

import contextlib
import os
import resource
import selectors
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.records.codec import (
    InvalidRecordError,
    decode_json,
    decode_record,
    make_record,
)
from gitlab_nightshift.records.events import Emit, Event, Note, RunEnded
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.run.received_files import (
    LARGEST_RECORD,
    ReceivedLogs,
    RecordStore,
    with_stored_path,
)
from gitlab_nightshift.stages.report.event_file import EVENTS, EventFile
from gitlab_nightshift.stages.report.job_log import JobLog
from gitlab_nightshift.system.disk_reserve import Reserve
from gitlab_nightshift.system.openat import remove_path
from gitlab_nightshift.system.processes import forbid_inspection
from gitlab_nightshift.system.raw_logs import Logs
from gitlab_nightshift.text.printable_text import replace_controls
from gitlab_nightshift.wire.channel import (
    LARGEST_EVENT,
    Frame,
    FrameKind,
    FrameReader,
    ProtocolError,
    RedactorConfig,
    Sender,
    decode_event,
)

MOST_MEMORY = 1 << 30
"""Bytes. A message that would need more is refused, and the run goes on."""


def main(data: Mapping[str, Any]) -> int:
    """Serve until all senders have ended. ``configuration`` is the descriptor of a pipe with the
    JSON of ``RedactorConfig``."""
    forbid_inspection()
    # Signals to the whole job are ignored: senders may still have messages to send.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        _limit_memory()
        with os.fdopen(data["configuration"], "rb") as file:
            config = decode_record(RedactorConfig, file.read())
        serve(config)
    except Exception as error:  # its message is not printed: it may quote a secret
        sys.stderr.write(f"nightshift: a defect of the redactor: {type(error).__name__}\n")
        return 70
    return 0


def serve(config: RedactorConfig) -> None:
    """Receive from all senders, until the last one has ended."""
    redact, log_folder = Redactor(config.values), Path(config.logs)
    logs = Logs(log_folder, redact, Reserve(log_folder.with_name("reserve")))
    log_names = set[str]()

    def redact_text(text: str) -> str:
        return with_stored_path(redact(text), logs, log_names)

    sinks, job_log = _open_sinks(config)
    dispatcher = EventDispatcher(sinks, redact_text)
    records = RecordStore(Path(config.results), redact, redact_text, logs.reserve)
    receivers = {
        sender.descriptor: ChannelReceiver(
            sender, dispatcher, records, ReceivedLogs(logs, log_names)
        )
        for sender in config.senders
    }
    _listen(receivers, dispatcher, config.ended)
    job_log.close()
    logs.reserve.release()


def _limit_memory() -> None:
    # RLIMIT_DATA includes private anonymous memory since Linux 4.7 (getrlimit(2)).
    _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MOST_MEMORY if hard_limit == resource.RLIM_INFINITY else min(MOST_MEMORY, hard_limit)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard_limit))


def _open_sinks(config: RedactorConfig) -> tuple[dict[str, Emit], JobLog]:
    """The sinks, for redacted events, by their names in warnings; and the one of the job log."""
    events = Path(config.results) / EVENTS
    remove_path(events)
    stream = open(  # noqa: PTH123, SIM115 - a descriptor, for as long as the process lives
        config.output, "w", encoding="utf-8", errors="backslashreplace"
    )
    is_delegation = config.live is not None
    job_log = JobLog(config.sections, config.colour, str, stream=stream, programs=is_delegation)
    sinks: dict[str, Emit] = {
        "the job log": job_log,
        events.name: EventFile(events, str, config.run_id),
    }
    if config.live is not None:
        live = Path(f"/proc/self/fd/{config.live}/{EVENTS}")
        sinks["the live events"] = EventFile(live, str, config.run_id)
    return sinks, job_log


def replace_control_characters(text: str) -> str:
    """Replace control characters, except newlines and tabs, by U+FFFD.

    The event is not refused: agents, whom events quote, could suppress events in this way.
    """
    return replace_controls(text.replace("\r\n", "\n"), "\ufffd")


class EventDispatcher:
    """Passes redacted events to all sinks. ``RunEnded`` is kept until ``end``, to be the last."""

    def __init__(self, sinks: dict[str, Emit], redact: Callable[[str], str]) -> None:
        self._sinks, self._redact = dict(sinks), redact
        self._run_ended: RunEnded | None = None
        self._ended = False

    def __call__(self, event: Event) -> None:
        """Pass an event to all sinks."""
        if isinstance(event, RunEnded):
            self._run_ended = self._run_ended or event
        elif not self._ended:
            self._redact_and_write(event)

    def end(self) -> None:
        """Pass ``RunEnded`` to all sinks, if a sender has sent it. Can be called again."""
        if self._run_ended and not self._ended:
            self._redact_and_write(self._run_ended)
            self._ended = True

    def _redact_and_write(self, event: Event) -> None:
        # In this order: with its control characters replaced, a secret would not be recognized.
        self._write(map_texts(event, lambda text: replace_control_characters(self._redact(text))))

    def _write(self, event: Event) -> None:
        for name, sink in tuple(self._sinks.items()):  # a copy: sinks that fail are removed
            try:
                sink(event)
            except OSError as error:  # not a full disk, which sinks handle
                del self._sinks[name]
                text = f"{name} cannot be written any more: {error.strerror}"
                self._write(Note(text, warning=True))


MOST_EVENTS, MOST_RECORDS, MOST_REFUSED = 50_000, 1_000, 10_000
"""Limits of one sender; after more refusals it is cut off. A day of progress is 43,200 events."""
_READ_BYTES, _TURN_BYTES = 1 << 16, 1 << 22
"""Bytes of one read, and of one sender's turn: more than a pipe can hold (1 MiB without privilege,
pipe(7)), so that the turn of a sender that has ended empties its pipe."""


class ChannelReceiver:
    """Receives the messages of one sender, which an agent may control. Each message is checked, and
    refused or passed on."""

    def __init__(
        self,
        sender: Sender,
        dispatcher: EventDispatcher,
        records: RecordStore,
        logs: ReceivedLogs,
    ) -> None:
        self._sender, self._dispatcher = sender, dispatcher
        self._records, self._logs = records, logs
        self._record_kinds = dict(sender.records)
        self._reader, self._parts = FrameReader(), bytearray()
        self._event_count = self._record_count = self._refused_count = 0
        self._has_ended_run = False
        log_handlers = {
            FrameKind.OPEN: logs.open,
            FrameKind.DATA: logs.write,
            FrameKind.CLOSE: logs.close,
            FrameKind.RENAME: logs.rename,
            FrameKind.TEXT: logs.write_text,
        }
        self._handlers: dict[FrameKind, Callable[[bytes], None]] = {
            FrameKind.PART: self._add_part,
            FrameKind.EVENT: self._handle_event,
            FrameKind.RECORD: self._store_record,
            **(log_handlers if sender.logs else {}),
        }

    @property
    def name(self) -> str:
        """The sender's name."""
        return self._sender.name

    @property
    def awaited(self) -> bool:
        """True if the run must wait for this sender."""
        return self._sender.awaited

    def read_available(self) -> bool:
        """Process what is in the pipe, for at most one turn. False once the sender has ended or is
        cut off."""
        for _ in range(_TURN_BYTES // _READ_BYTES):
            try:
                data = os.read(self._sender.descriptor, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            try:
                for frame in self._reader.feed(data):
                    self._handle(frame)
            except ProtocolError as error:
                self._warn(f"it is not listened to any more: {error}")
                self._reader = FrameReader()
                return False
        return True

    def end(self) -> bool:
        """Close the sender's logs and pipe, and log how many messages were refused. True if this
        sender reported the end of the run."""
        self._logs.close_all()
        if self._parts or self._reader.unread_bytes:
            self._warn("it ended in the middle of a message")
        if self._refused_count > 1:
            self._warn(f"{self._refused_count} messages were not accepted")
        os.close(self._sender.descriptor)
        return self._has_ended_run

    def _handle(self, frame: Frame) -> None:
        try:
            handler = self._handlers.get(frame.kind)
            if handler is None:
                raise InvalidRecordError("a log, and it has none")
            handler(frame.payload)
        except InvalidRecordError as error:
            self._refuse(str(error))
        except (OSError, MemoryError) as error:
            self._parts.clear()  # frees the memory of a message too large for RLIMIT_DATA
            self._refuse(getattr(error, "strerror", None) or "there was no memory for it")

    def _refuse(self, why: str) -> None:
        self._refused_count += 1
        if self._refused_count == 1:
            self._warn(f"a message was not accepted: {why}")
        if self._refused_count > MOST_REFUSED:
            raise ProtocolError(f"{self._refused_count} messages were not accepted")

    def _warn(self, text: str) -> None:
        self._dispatcher(Note(f"{self._sender.name}: {text}", warning=True))

    def _add_part(self, payload: bytes) -> None:
        # One byte more than allowed is kept, so that the record is refused when its name arrives.
        self._parts += payload[: LARGEST_RECORD + 1 - len(self._parts)]

    def _take_parts(self) -> bytes:
        data = bytes(self._parts)
        self._parts.clear()
        return data

    def _handle_event(self, payload: bytes) -> None:
        data = self._take_parts() + payload
        self._event_count += 1
        if self._event_count > MOST_EVENTS:
            raise InvalidRecordError(f"more than {MOST_EVENTS} events")
        if len(data) > LARGEST_EVENT:
            raise InvalidRecordError(f"an event of {len(data)} bytes")
        event = decode_event(data, self._sender.events)
        self._has_ended_run = self._has_ended_run or isinstance(event, RunEnded)
        self._dispatcher(event)

    def _store_record(self, payload: bytes) -> None:
        data, name = self._take_parts(), make_record(str, decode_json(payload))
        if name not in self._record_kinds:
            raise InvalidRecordError("a record that it may not write")
        self._record_count += 1
        if self._record_count > MOST_RECORDS:
            raise InvalidRecordError(f"more than {MOST_RECORDS} records")
        self._records.store(name, self._record_kinds[name], data)


def _listen(receivers: dict[int, ChannelReceiver], dispatcher: EventDispatcher, ended: int) -> None:
    """Read from the senders until all have ended; in each round in the order in which they start.
    The names of ended senders are written to the descriptor ``ended``.

    Once a sender has reported the run's end, only awaited senders can delay it: a process that
    could not be killed may hold another pipe open.
    """
    open_receivers, run_ended = dict(receivers), False
    with selectors.DefaultSelector() as selector:
        # A sender may stall in the middle of a message: no read may block the others.
        for descriptor in open_receivers:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        while open_receivers:
            ready = {key.fd for key, _ in selector.select()}
            # Not in the order of epoll: plan's log has to come before work's.
            for descriptor in [number for number in open_receivers if number in ready]:
                if not open_receivers[descriptor].read_available():
                    selector.unregister(descriptor)
                    receiver = open_receivers.pop(descriptor)
                    run_ended = receiver.end() or run_ended
                    with contextlib.suppress(BrokenPipeError):  # the supervisor has died
                        os.write(ended, f"{receiver.name}\n".encode())
            if run_ended and not any(receiver.awaited for receiver in open_receivers.values()):
                dispatcher.end()
    dispatcher.end()
