"""Receives the logs of one sender: strict names, few open at a time."""

import contextlib
import re
from dataclasses import dataclass, field
from typing import Annotated

from gitlab_nightshift.records.codec import LARGEST_INT, InvalidRecordError, Length, decode_record
from gitlab_nightshift.system.raw_logs import Logs, Sink
from gitlab_nightshift.text.lazy_patterns import compile_lazily

MOST_LOGS, MOST_OPEN, MOST_TEXTS = 5_000, 16, 50
"""Logs of all senders; open logs of one sender; text files of one sender."""
_NAME = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}\.(?:out|err|txt|jsonl?)", re.ASCII)
"""No extension that a browser would run or render when artifacts are shown. Compressed logs get
``.gz`` appended."""

Name = Annotated[str, Length(200)]


@dataclass(frozen=True)
class _OpenMessage:
    first: int
    names: Annotated[tuple[Name, ...], Length(MOST_OPEN, least=1)]


@dataclass(frozen=True)
class _CloseMessage:
    first: int


@dataclass(frozen=True)
class _RenameMessage:
    old: Name
    new: Name


@dataclass(frozen=True)
class _TextMessage:
    name: Name
    text: str


@dataclass
class _LogGroup:
    """Logs that were opened together."""

    names: tuple[str, ...]
    logs: tuple[Sink, ...]
    closing: contextlib.ExitStack


@dataclass
class ReceivedLogs:
    """``taken`` are the names of all senders' logs. Methods raise InvalidRecordError and
    OSError."""

    logs: Logs
    taken: set[str]
    _groups: dict[int, _LogGroup] = field(default_factory=dict)
    _closed: set[str] = field(default_factory=set)
    _texts: set[str] = field(default_factory=set)
    _next: int = 0

    def open(self, payload: bytes) -> None:
        """Open a group of logs."""
        message = decode_record(_OpenMessage, payload)
        if not self._next <= message.first <= LARGEST_INT - MOST_OPEN:
            raise InvalidRecordError("a log has the number of another")
        if (
            sum(len(group.names) for group in self._groups.values()) + len(message.names)
            > MOST_OPEN
        ):
            raise InvalidRecordError(f"more than {MOST_OPEN} logs are open")
        self._take(*message.names)
        self._next = message.first + len(message.names)
        self.logs.reserve.hold()
        closing = contextlib.ExitStack()
        sinks = closing.enter_context(self.logs.open_logs(*message.names))
        self._groups[message.first] = _LogGroup(message.names, sinks, closing)

    def write(self, payload: bytes) -> None:
        """Append to a log."""
        number = int.from_bytes(payload[:8], "big")
        for first, group in self._groups.items():
            if first <= number < first + len(group.logs):
                group.logs[number - first].write(payload[8:])
                return
        raise InvalidRecordError("a log that is not open")

    def close(self, payload: bytes) -> None:
        """Close a group of logs."""
        group = self._groups.pop(decode_record(_CloseMessage, payload).first, None)
        if group is None:
            raise InvalidRecordError("a log that is not open")
        self._closed.update(group.names)
        group.closing.close()

    def close_all(self) -> None:
        """Close what an ended sender left open."""
        for group in self._groups.values():
            with contextlib.suppress(OSError):
                group.closing.close()
        self._groups.clear()

    def rename(self, payload: bytes) -> None:
        """Rename a closed log."""
        message = decode_record(_RenameMessage, payload)
        if message.old not in self._closed:
            raise InvalidRecordError("a log that is not there")
        self._take(message.new)
        path = self.logs.find_log(message.old)
        path.rename(path.with_name(path.name.replace(message.old, message.new, 1)))
        self._closed.remove(message.old)
        self._closed.add(message.new)
        self.taken.remove(message.old)

    def write_text(self, payload: bytes) -> None:
        """Write a whole text file."""
        message = decode_record(_TextMessage, payload)
        if message.name not in self._texts:
            if len(self._texts) >= MOST_TEXTS:
                raise InvalidRecordError(f"more than {MOST_TEXTS} texts of its own")
            self._take(message.name)
            self._texts.add(message.name)
        self.logs.write(message.name, message.text)

    def _take(self, *names: str) -> None:
        if not all(map(_NAME.fullmatch, names)):
            raise InvalidRecordError("invalid log name")
        if self.taken.intersection(names) or len(set(names)) < len(names):
            raise InvalidRecordError("two logs of one name")
        if len(self.taken) + len(names) > MOST_LOGS:
            raise InvalidRecordError(f"more than {MOST_LOGS} logs")
        self.taken.update(names)


_LOG_PATH = compile_lazily(r"((?:.*/)?logs/)([A-Za-z0-9_.-]+?)(?:\.gz)?")


def with_stored_path(text: str, logs: Logs, taken: set[str]) -> str:
    """The text, or if it is the path of a log, the path under which that is stored: only this
    process knows whether it was compressed."""
    found = _LOG_PATH.fullmatch(text) if "logs/" in text else None
    if not found or found[2] not in taken:
        return text
    return f"{found[1]}{logs.find_log(found[2]).name}"
