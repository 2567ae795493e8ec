"""Starts a process, inside a sandbox or not, and reads its launcher's report."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.system.file_names import format_path

if TYPE_CHECKING:
    from gitlab_nightshift.sandbox.broker_client import Broker

BLOCKED_SIGNALS = (signal.SIGINT, signal.SIGTERM)
MOST_REPORT_BYTES = 64 * 1024
MOST_STARTS = 5
"""Attempts to start a process: one fails if a path to be hidden disappears meanwhile, as other
jobs' folders on the machine do. Each attempt looks for the paths again."""


def any_missing(paths: Iterable[str]) -> bool:
    """True if one of the paths does not exist."""
    return not all(map(os.path.lexists, paths))


@dataclass(frozen=True)
class LauncherReport:
    """The report of the launcher and the monitor. ``ready``: the sandbox was complete; ``failed``:
    why it was not, "" if nothing was reported; ``refused``: what was refused to its processes
    (each refusal once, the first 40)."""

    ready: bool
    failed: str
    refused: tuple[str, ...]


@dataclass
class Launch:
    """A process to start, and the descriptors for its launcher. The launcher's report is read from
    ``report_fd``. A ``broker`` starts the process in place of this one, and builds the launcher's
    command itself."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    report_fd: int | None = None
    confined: bool = True
    hidden_paths: tuple[str, ...] = ()
    broker: "Broker | None" = None
    _launcher_fds: list[int] = field(default_factory=list, repr=False)
    _report: bytearray = field(default_factory=bytearray, repr=False)

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the process, with three pipes and its own session. Call it once. Raises OSError.

        If it is ``confined`` and there is no broker, the process ends when the calling thread does.
        """
        # PR_SET_PDEATHSIG is sent when the thread that forked ends (prctl(2)). bwrap inherits this
        # mask, so these signals do not end it; the launcher clears it, so they reach the program.
        old_mask = signal.pthread_sigmask(
            signal.SIG_BLOCK, BLOCKED_SIGNALS if self.confined else ()
        )
        try:
            if self.broker:
                return self.broker.start(self.argv, *self._launcher_fds)
            return subprocess.Popen(
                self.argv,
                cwd=self.cwd,
                env=self.env,
                pass_fds=tuple(self._launcher_fds),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            self._close_launcher_fds()

    def read_report(self) -> LauncherReport:
        """The report so far; complete after the end of the process. An agent may have chosen the
        names in it."""
        if not self.confined:
            return LauncherReport(True, "", ())
        # Not to the pipe's end: the monitor holds it open as long as it lives.
        with contextlib.suppress(BlockingIOError):
            while self.report_fd is not None and len(self._report) < MOST_REPORT_BYTES:
                data = os.read(self.report_fd, 4096)
                if not data:
                    break
                self._report += data
        lines = [format_path(line) for line in self._report.decode("utf-8", "replace").splitlines()]
        refused = [line.removeprefix("refused ") for line in lines if line.startswith("refused ")]
        failed = [line.removeprefix("failed ") for line in lines if line.startswith("failed ")]
        return LauncherReport("ready" in lines, next(iter(failed), ""), tuple(refused))

    def has_lost_hidden_path(self) -> bool:
        """True if the process did not start and a path to be hidden is gone."""
        return not self.read_report().ready and any_missing(self.hidden_paths)

    def close(self) -> None:
        """Close all descriptors; the report stays readable."""
        self._close_launcher_fds()
        self.read_report()
        if self.report_fd is not None:
            os.close(self.report_fd)
            self.report_fd = None

    def _close_launcher_fds(self) -> None:
        while self._launcher_fds:
            os.close(self._launcher_fds.pop())
