"""Logs that are sent to the redactor while they are written, with or without a copy for the
sender."""

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
    """One log, written to the redactor and to the sender's copy, if there is one."""

    channel: OutputChannel
    number: int
    copy: Sink | None = None

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self.channel.log(self.number, data)
        if self.copy:
            self.copy.write(data)


@dataclass(frozen=True)
class SentLogs(Logs):
    """Logs in a private folder of the sender, which are also sent to the redactor.

    The sender's copies have the bounds of ``Logs``, and are for the sender itself (the end of an
    output, a recording); ``redact`` knows only secrets that the sender may know. The redactor's
    copies are kept in the results. All names begin with ``prefix``.
    """

    channel: OutputChannel
    prefix: str = ""

    def find_log(self, name: str) -> Path:
        """The path of a log by its plain name, compressed or not."""
        return super().find_log(self.prefix + name)

    @contextlib.contextmanager
    def open_logs(self, *names: str) -> Iterator[tuple[Sink, ...]]:
        """New logs, for as long as a program runs."""
        named = [self.prefix + name for name in names]
        first = self.channel.open_logs(*named)
        try:
            with super().open_logs(*named) as copies:
                numbered = enumerate(copies, first)
                yield tuple(_SentLog(self.channel, number, copy) for number, copy in numbered)
        finally:
            self.channel.close_logs(first)

    def rename(self, old: str, new: str) -> None:
        """Give both outputs of a program another name."""
        super().rename(old, new)
        for kind in ("out", "err"):
            self.channel.rename_log(*(f"{self.prefix}{name}.{kind}" for name in (old, new)))

    def write(self, name: str, text: str) -> None:
        """Write a text of this program, such as a traceback."""
        super().write(self.prefix + name, text)
        self.channel.send_text(self.prefix + name, text)


@dataclass(frozen=True)
class PassedLogs(SentLogs):
    """Logs of a sender that keeps no copy, as it must not read agents' output; only texts of its
    own are also in its folder."""

    @contextlib.contextmanager
    def open_logs(self, *names: str) -> Iterator[tuple[Sink, ...]]:
        """New logs, for as long as a program runs."""
        first = self.channel.open_logs(*(self.prefix + name for name in names))
        try:
            yield tuple(_SentLog(self.channel, first + index) for index in range(len(names)))
        finally:
            self.channel.close_logs(first)


def pass_logs(folder: Path, channel: OutputChannel, prefix: str) -> PassedLogs:
    """Logs of a process that keeps no copy; ``folder`` is created, for texts of its own."""
    folder.mkdir(exist_ok=True)
    return PassedLogs(folder, Redactor(()), Reserve(folder / "reserve"), channel, prefix)


def open_logs(folder: Path, channel: OutputChannel, prefix: str = "") -> SentLogs:
    """Logs of a process that may know no secret; its copies are in ``folder``."""
    folder.mkdir(exist_ok=True)  # it exists if the process is started again
    return SentLogs(folder, Redactor(()), Reserve(folder / "reserve"), channel, prefix)
