"""The redactor: the process that holds the secret values.

The others send it what to log and store, each through a pipe. It alone writes the job log and the
artifacts, and never answers. It ignores signals, and ends when all senders have ended.
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
    ResultRecords,
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
    Configuration,
    Frame,
    FrameKind,
    FrameReader,
    ProtocolError,
    Sender,
    decode_event,
)

MOST_MEMORY = 1 << 30
"""Bytes. A message that would need more is refused, and the run goes on."""


def main(data: Mapping[str, Any]) -> int:
    """Serve until all senders end; ``configuration`` is the descriptor of a pipe with the JSON."""
    forbid_inspection()
    # It outlives its senders: a signal to the whole job would lose what they still have to send.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        _limit_memory()
        with os.fdopen(data["configuration"], "rb") as file:
            configuration = decode_record(Configuration, file.read())
        serve(configuration)
    except Exception as error:  # not its text, which may quote a secret
        sys.stderr.write(f"nightshift: a defect of the redactor: {type(error).__name__}\n")
        return 70
    return 0


def serve(configuration: Configuration) -> None:
    """Receive from all senders, until the last one has ended."""
    redact, folder = Redactor(configuration.values), Path(configuration.logs)
    logs, log_names = Logs(folder, redact, Reserve(folder.with_name("reserve"))), set[str]()

    def redact_text(text: str) -> str:
        return with_stored_path(redact(text), logs, log_names)

    sinks, log = _open_sinks(configuration)
    dispatcher = EventDispatcher(sinks, redact_text)
    records = ResultRecords(Path(configuration.results), redact, redact_text, logs.reserve)
    receivers = {
        sender.descriptor: ChannelReceiver(
            sender, dispatcher, records, ReceivedLogs(logs, log_names)
        )
        for sender in configuration.senders
    }
    _listen(receivers, dispatcher, configuration.ended)
    log.close()
    logs.reserve.release()


def _limit_memory() -> None:
    # Counts private anonymous memory, too, since Linux 4.7 (getrlimit(2)).
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = MOST_MEMORY if most == resource.RLIM_INFINITY else min(MOST_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, most))


def _open_sinks(configuration: Configuration) -> tuple[dict[str, Emit], JobLog]:
    """The sinks by the names that a warning gives them, and the job log, which is one of them. Only
    redacted events reach them."""
    events = Path(configuration.results) / EVENTS
    remove_path(events)
    stream = open(  # noqa: PTH123, SIM115 - a descriptor, for as long as the process lives
        configuration.output, "w", encoding="utf-8", errors="backslashreplace"
    )
    sinks: dict[str, Emit]
    is_delegation = configuration.live is not None
    log = JobLog(
        configuration.sections, configuration.colour, str, stream=stream, programs=is_delegation
    )
    sinks = {"the job log": log, events.name: EventFile(events, str, configuration.run_id)}
    if configuration.live is not None:
        live = Path(f"/proc/self/fd/{configuration.live}/{EVENTS}")
        sinks["the live events"] = EventFile(live, str, configuration.run_id)
    return sinks, log


def replace_control_characters(text: str) -> str:
    """Replace control characters, except newlines and tabs, by U+FFFD.

    Events quote agents, so a control character is no reason to drop the event.
    """
    return replace_controls(text.replace("\r\n", "\n"), "\ufffd")


class EventDispatcher:
    """Passes events to all sinks. ``RunEnded`` waits until ``end``: nothing may follow it."""

    def __init__(self, sinks: dict[str, Emit], redact: Callable[[str], str]) -> None:
        self._sinks, self._redact = dict(sinks), redact
        self._last: RunEnded | None = None
        self._ended = False

    def __call__(self, event: Event) -> None:
        """Pass an event on to all sinks."""
        if isinstance(event, RunEnded):
            self._last = self._last or event
        elif not self._ended:
            self._pass_on(event)

    def end(self) -> None:
        """Pass on ``RunEnded``, if a sender has sent it. Called again, this does nothing."""
        if self._last and not self._ended:
            self._pass_on(self._last)
            self._ended = True

    def _pass_on(self, event: Event) -> None:
        # In this order: what is replaced in a secret would hide it from the redactor.
        self._write(map_texts(event, lambda text: replace_control_characters(self._redact(text))))

    def _write(self, event: Event) -> None:
        for name, sink in tuple(self._sinks.items()):  # a copy: sinks that fail are removed
            try:
                sink(event)
            except OSError as error:  # never a full disk, which sinks survive
                del self._sinks[name]
                text = f"{name} cannot be written any more: {error.strerror}"
                self._write(Note(text, warning=True))


MOST_EVENTS, MOST_RECORDS, MOST_REFUSED = 50_000, 1_000, 10_000
"""Limits of one sender; after more refusals it is cut off. A day of progress is 43,200 events."""
_CHUNK, _TURN = 1 << 16, 1 << 22
"""Bytes of one read, and of one turn. A turn is more than a pipe can hold (1 MiB without privilege,
pipe(7)), so it empties the pipe of a sender that has ended."""


class ChannelReceiver:
    """Receives the messages of one sender, which an agent may control: each is checked, and refused
    or passed on. Never answers."""

    def __init__(
        self,
        sender: Sender,
        dispatcher: EventDispatcher,
        records: ResultRecords,
        logs: ReceivedLogs,
    ) -> None:
        self._sender, self._dispatcher, self._records, self._logs = (
            sender,
            dispatcher,
            records,
            logs,
        )
        self._kinds = dict(sender.records)
        self._reader, self._parts = FrameReader(), bytearray()
        self._events = self._kept = self._refused = 0
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
            FrameKind.RECORD: self._keep_record,
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
        """Process what is in the pipe, for one turn at most; False once the sender has ended or is
        cut off."""
        for _ in range(_TURN // _CHUNK):
            try:
                data = os.read(self._sender.descriptor, _CHUNK)
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
        """Close its logs, and report what was refused. True if this sender reported the end of the
        run."""
        self._logs.close_all()
        if self._parts or self._reader.unread_bytes:
            self._warn("it ended in the middle of a message")
        if self._refused > 1:
            self._warn(f"{self._refused} messages were not accepted")
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
            # Free what a message too large for RLIMIT_DATA holds: the next one needs it.
            self._parts.clear()
            self._refuse(getattr(error, "strerror", None) or "there was no memory for it")

    def _refuse(self, why: str) -> None:
        self._refused += 1
        if self._refused == 1:
            self._warn(f"a message was not accepted: {why}")
        if self._refused > MOST_REFUSED:
            raise ProtocolError(f"{self._refused} messages were not accepted")

    def _warn(self, text: str) -> None:
        self._dispatcher(Note(f"{self._sender.name}: {text}", warning=True))

    def _add_part(self, payload: bytes) -> None:
        # One byte more than allowed is kept: when its name comes, the record is refused by that.
        self._parts += payload[: LARGEST_RECORD + 1 - len(self._parts)]

    def _join_parts(self) -> bytes:
        data = bytes(self._parts)
        self._parts.clear()
        return data

    def _handle_event(self, payload: bytes) -> None:
        data = self._join_parts() + payload
        self._events += 1
        if self._events > MOST_EVENTS:
            raise InvalidRecordError(f"more than {MOST_EVENTS} events")
        if len(data) > LARGEST_EVENT:
            raise InvalidRecordError(f"an event of {len(data)} bytes")
        event = decode_event(data, self._sender.events)
        self._has_ended_run = self._has_ended_run or isinstance(event, RunEnded)
        self._dispatcher(event)

    def _keep_record(self, payload: bytes) -> None:
        data, name = self._join_parts(), make_record(str, decode_json(payload))
        if name not in self._kinds:
            raise InvalidRecordError("a record that it may not write")
        self._kept += 1
        if self._kept > MOST_RECORDS:
            raise InvalidRecordError(f"more than {MOST_RECORDS} records")
        self._records.keep(name, self._kinds[name], data)


def _listen(receivers: dict[int, ChannelReceiver], dispatcher: EventDispatcher, ended: int) -> None:
    """Read from the senders, in each round in the order in which they start.

    Once a sender has reported the run's end, wait only for awaited senders: a process that could
    not be killed may hold another pipe open.
    """
    open_receivers, run_ended = dict(receivers), False
    with selectors.DefaultSelector() as selector:
        # A sender may stall in the middle of a message: no read may block the others.
        for descriptor in open_receivers:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        while open_receivers:
            ready = {key.fd for key, _ in selector.select()}
            # In the order of the senders, not in that of epoll: what plan logged precedes work's.
            for descriptor in [each for each in open_receivers if each in ready]:
                if not open_receivers[descriptor].read_available():
                    selector.unregister(descriptor)
                    receiver = open_receivers.pop(descriptor)
                    run_ended = receiver.end() or run_ended
                    with contextlib.suppress(BrokenPipeError):  # the supervisor has died
                        os.write(ended, f"{receiver.name}\n".encode())
            if run_ended and not any(receiver.awaited for receiver in open_receivers.values()):
                dispatcher.end()
    dispatcher.end()
