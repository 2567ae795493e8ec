"""Logs that are sent to the redactor while they are written, with a copy for the sender."""

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
    """One log, written to the redactor and to the sender's own copy."""

    outlet: OutputChannel
    number: int
    own: Sink

    def write(self, data: bytes) -> None:
        """Take what was printed."""
        self.outlet.log(self.number, data)
        self.own.write(data)


@dataclass(frozen=True)
class SentLogs(Logs):
    """Logs in a private folder of the sender, which are also sent to the redactor.

    The sender reads its own copies again (the end of an output, a recording), with the same bounds;
    ``redact`` knows only secrets that the sender may know. The redactor's copies are kept as the
    result. All names begin with ``prefix``.
    """

    outlet: OutputChannel
    prefix: str = ""

    def find_log(self, name: str) -> Path:
        """A log by its plain name: where it is now, compressed or not."""
        return super().find_log(self.prefix + name)

    @contextlib.contextmanager
    def open_logs(self, *names: str) -> Iterator[tuple[Sink, ...]]:
        """New logs, for as long as a program runs."""
        named = [self.prefix + name for name in names]
        first = self.outlet.open_logs(*named)
        try:
            with super().open_logs(*named) as logs:
                yield tuple(_SentLog(self.outlet, n, log) for n, log in enumerate(logs, first))
        finally:
            self.outlet.close_logs(first)

    def rename(self, old: str, new: str) -> None:
        """Give both outputs of a program another name."""
        super().rename(old, new)
        for kind in ("out", "err"):
            self.outlet.rename_log(*(f"{self.prefix}{name}.{kind}" for name in (old, new)))

    def write(self, name: str, text: str) -> None:
        """A text of this program's own, such as a traceback."""
        super().write(self.prefix + name, text)
        self.outlet.send_text(self.prefix + name, text)


@dataclass(frozen=True)
class _PassedLog:
    """The redactor's log alone."""

    outlet: OutputChannel
    number: int

    def write(self, data: bytes) -> None:
        """Take what was printed."""
        self.outlet.log(self.number, data)


@dataclass(frozen=True)
class PassedLogs(SentLogs):
    """Logs of a sender that keeps nothing of them: it passes on what it must not read."""

    @contextlib.contextmanager
    def open_logs(self, *names: str) -> Iterator[tuple[Sink, ...]]:
        """New logs, for as long as a program runs."""
        first = self.outlet.open_logs(*(self.prefix + name for name in names))
        try:
            yield tuple(_PassedLog(self.outlet, n) for n, _ in enumerate(names, first))
        finally:
            self.outlet.close_logs(first)


def pass_logs(folder: Path, outlet: OutputChannel, prefix: str) -> PassedLogs:
    """Logs that are passed on; ``folder`` is made, for texts of the process's own."""
    folder.mkdir(exist_ok=True)
    return PassedLogs(folder, Redactor(()), Reserve(folder / "reserve"), outlet, prefix)


def open_logs(folder: Path, outlet: OutputChannel, prefix: str = "") -> SentLogs:
    """Logs of a process that may know no secret; its own are in ``folder``, which is made, unless
    the process is started once more."""
    folder.mkdir(exist_ok=True)
    return SentLogs(folder, Redactor(()), Reserve(folder / "reserve"), outlet, prefix)
