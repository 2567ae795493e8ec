"""Logs that are sent to the redactor while they are written; the sender may keep a copy."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.system.disk_reserve import Reserve
from gitlab_nightshift.system.raw_logs import Logs, Sink
from gitlab_nightshift.wire.channel import OutputChannel


@dataclass(frozen=True)
class _SentLog:
    """One log, written to the redactor and to the sender's copy, if it keeps one."""

    channel: OutputChannel
    number: int
    copy: Sink | None = None

    def write(self, data: bytes) -> None:
        """Write the next bytes."""
        self.channel.log(self.number, data)
        if self.copy:
            self.copy.write(data)


@dataclass(frozen=True)
class SentLogs(Logs):
    """Logs that are sent to the redactor, which keeps them in the results, with a copy in a private
    folder of the sender.

    The sender uses its copies for the end of an output, or for a recording. They have the limits of
    ``Logs``; ``redact`` knows only secrets that the sender may know. ``prefix`` is added to all
    names.
    """

    channel: OutputChannel
    prefix: str = ""

    def find_log(self, name: str) -> Path:
        """The path of the sender's copy of a log, compressed or not."""
        return super().find_log(self.prefix + name)

    @contextlib.contextmanager
    def open_logs(self, *names: str) -> Iterator[tuple[Sink, ...]]:
        """Open logs, for as long as a program runs."""
        full_names = [self.prefix + name for name in names]
        first = self.channel.open_logs(*full_names)
        try:
            with super().open_logs(*full_names) as copies:
                numbered = enumerate(copies, first)
                yield tuple(_SentLog(self.channel, number, copy) for number, copy in numbered)
        finally:
            self.channel.close_logs(first)

    def rename(self, old: str, new: str) -> None:
        """Rename the logs of a program's stdout and stderr."""
        super().rename(old, new)
        for stream in ("out", "err"):
            old_name, new_name = f"{self.prefix}{old}.{stream}", f"{self.prefix}{new}.{stream}"
            self.channel.rename_log(old_name, new_name)

    def write(self, name: str, text: str) -> None:
        """Write a text of this program, such as a traceback."""
        super().write(self.prefix + name, text)
        self.channel.send_text(self.prefix + name, text)


@dataclass(frozen=True)
class PassedLogs(SentLogs):
    """Logs of a sender that keeps no copies, as it must not read agents' output. Only its own texts
    are also written to its folder."""

    @contextlib.contextmanager
    def open_logs(self, *names: str) -> Iterator[tuple[Sink, ...]]:
        """Open logs, for as long as a program runs."""
        first = self.channel.open_logs(*(self.prefix + name for name in names))
        try:
            yield tuple(_SentLog(self.channel, first + index) for index in range(len(names)))
        finally:
            self.channel.close_logs(first)


def pass_logs(folder: Path, channel: OutputChannel, prefix: str) -> PassedLogs:
    """Logs of a process that keeps no copies; ``folder`` is created for its own texts."""
    folder.mkdir(exist_ok=True)
    return PassedLogs(folder, Redactor(()), Reserve(folder / "reserve"), channel, prefix)


def open_logs(folder: Path, channel: OutputChannel, prefix: str = "") -> SentLogs:
    """Logs of a process that knows no secrets; its copies are in ``folder``."""
    folder.mkdir(exist_ok=True)  # it exists if the process is started again
    return SentLogs(folder, Redactor(()), Reserve(folder / "reserve"), channel, prefix)
