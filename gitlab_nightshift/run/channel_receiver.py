"""Reads one sender's pipe. Invalid messages are counted, and reported once."""

import os
from collections.abc import Callable

from gitlab_nightshift.records.codec import InvalidRecordError, decode_json, make_record
from gitlab_nightshift.records.events import Note, RunEnded
from gitlab_nightshift.run.event_output import EventDispatcher
from gitlab_nightshift.run.kept_records import LARGEST_RECORD, ResultRecords
from gitlab_nightshift.run.received_logs import ReceivedLogs
from gitlab_nightshift.wire.protocol import (
    LARGEST_EVENT,
    Frame,
    FrameKind,
    FrameReader,
    ProtocolError,
    Sender,
    decode_event,
)

MOST_EVENTS, MOST_RECORDS, MOST_REFUSED = 50_000, 1_000, 10_000
"""Limits of one sender; after more refusals it is cut off. A day of progress is 43,200 events."""
_CHUNK, _TURN = 1 << 16, 1 << 22
"""Bytes of one read, and of one turn. A turn is more than a pipe can hold (1 MiB without privilege,
pipe(7)), so it empties the pipe of a sender that has ended."""


class ChannelReceiver:
    """Receives from one sender, and never answers it."""

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
        log_takers = {
            FrameKind.OPEN: logs.open,
            FrameKind.DATA: logs.write,
            FrameKind.CLOSE: logs.close,
            FrameKind.RENAME: logs.rename,
            FrameKind.TEXT: logs.write_text,
        }
        self._takers: dict[FrameKind, Callable[[bytes], None]] = {
            FrameKind.PART: self._add_part,
            FrameKind.EVENT: self._handle_event,
            FrameKind.RECORD: self._keep_record,
            **(log_takers if sender.logs else {}),
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
        """Process what is in the pipe; False once the sender has ended or is cut off."""
        for _ in range(_TURN // _CHUNK):
            try:
                data = os.read(self._sender.descriptor, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            try:
                for frame in self._reader.feed(data):
                    self._take(frame)
            except ProtocolError as error:
                self._warn(f"it is not listened to any more: {error}")
                self._reader = FrameReader()
                return False
        return True

    def end(self) -> bool:
        """Close its logs, and report what was refused. True if this sender reported the end of the
        run."""
        self._logs.close_all()
        if self._parts or self._reader.waiting:
            self._warn("it ended in the middle of a message")
        if self._refused > 1:
            self._warn(f"{self._refused} messages were not accepted")
        os.close(self._sender.descriptor)
        return self._has_ended_run

    def _take(self, frame: Frame) -> None:
        try:
            taker = self._takers.get(frame.kind)
            if taker is None:
                raise InvalidRecordError("a log, and it has none")
            taker(frame.payload)
        except InvalidRecordError as error:
            self._refuse(str(error))
        except (OSError, MemoryError) as error:
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
        # One byte too many is enough to refuse the record later, by its name.
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
