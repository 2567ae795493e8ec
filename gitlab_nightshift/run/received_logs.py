"""The logs of one sender as they arrive: named strictly, few at a time, kept as all logs are."""

import contextlib
import re
from dataclasses import dataclass, field
from typing import Annotated

from gitlab_nightshift.records.field_bounds import Length
from gitlab_nightshift.records.strict_reading import LARGEST_INT, InvalidRecordError, decode_record
from gitlab_nightshift.system.raw_logs import Logs, Sink
from gitlab_nightshift.text.lazy_patterns import compile_lazily

MOST_LOGS, MOST_OPEN, MOST_TEXTS = 5_000, 16, 50
"""Logs of all senders; open logs of one sender; texts of one sender's own."""
_NAME = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}\.(?:out|err|txt|jsonl?)", re.ASCII)
"""Nothing that a browser would run or draw where the artifacts are shown. What is compressed gets
``.gz`` after it."""

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
    """``taken`` are the names of all senders' logs. Every method raises InvalidRecordError and
    OSError."""

    logs: Logs
    taken: set[str]
    _groups: dict[int, _LogGroup] = field(default_factory=dict)
    _closed: set[str] = field(default_factory=set)
    _texts: set[str] = field(default_factory=set)
    _next: int = 0

    def open(self, payload: bytes) -> None:
        """Begin logs."""
        asked = decode_record(_OpenMessage, payload)
        if not self._next <= asked.first <= LARGEST_INT - MOST_OPEN:
            raise InvalidRecordError("a log has the number of another")
        if sum(len(group.names) for group in self._groups.values()) + len(asked.names) > MOST_OPEN:
            raise InvalidRecordError(f"more than {MOST_OPEN} logs are open")
        self._take(*asked.names)
        self._next = asked.first + len(asked.names)
        self.logs.reserve.hold()
        closing = contextlib.ExitStack()
        made = closing.enter_context(self.logs.open_logs(*asked.names))
        self._groups[asked.first] = _LogGroup(asked.names, made, closing)

    def write(self, payload: bytes) -> None:
        """Take more of a log."""
        number = int.from_bytes(payload[:8], "big")
        for first, group in self._groups.items():
            if first <= number < first + len(group.logs):
                group.logs[number - first].write(payload[8:])
                return
        raise InvalidRecordError("a log that is not open")

    def close(self, payload: bytes) -> None:
        """End logs that were opened together."""
        group = self._groups.pop(decode_record(_CloseMessage, payload).first, None)
        if group is None:
            raise InvalidRecordError("a log that is not open")
        self._closed.update(group.names)
        group.closing.close()

    def close_all(self) -> None:
        """End what a sender that has ended left open."""
        for group in self._groups.values():
            with contextlib.suppress(OSError):
                group.closing.close()
        self._groups.clear()

    def rename(self, payload: bytes) -> None:
        """Give a log another name."""
        asked = decode_record(_RenameMessage, payload)
        if asked.old not in self._closed:
            raise InvalidRecordError("a log that is not there")
        self._take(asked.new)
        path = self.logs.find_log(asked.old)
        path.rename(path.with_name(path.name.replace(asked.old, asked.new, 1)))
        self._closed.remove(asked.old)
        self._closed.add(asked.new)
        self.taken.remove(asked.old)

    def write_text(self, payload: bytes) -> None:
        """Write a text of the sender's own."""
        asked = decode_record(_TextMessage, payload)
        if asked.name not in self._texts:
            if len(self._texts) >= MOST_TEXTS:
                raise InvalidRecordError(f"more than {MOST_TEXTS} texts of its own")
            self._take(asked.name)
            self._texts.add(asked.name)
        self.logs.write(asked.name, asked.text)

    def _take(self, *names: str) -> None:
        if not all(map(_NAME.fullmatch, names)):
            raise InvalidRecordError("the name of a log is none")
        if self.taken.intersection(names) or len(set(names)) < len(names):
            raise InvalidRecordError("two logs of one name")
        if len(self.taken) + len(names) > MOST_LOGS:
            raise InvalidRecordError(f"more than {MOST_LOGS} logs")
        self.taken.update(names)


_PLACE = compile_lazily(r"((?:.*/)?logs/)([A-Za-z0-9_.-]+?)(?:\.gz)?")


def with_real_name(text: str, logs: Logs, taken: set[str]) -> str:
    """A text, or where a log is if the text names one: only this process knows whether that is
    compressed."""
    found = _PLACE.fullmatch(text) if "logs/" in text else None
    if not found or found[2] not in taken:
        return text
    return f"{found[1]}{logs.find_log(found[2]).name}"
