"""A process that is started, inside a sandbox or in none, and its launcher's report."""

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

HELD_BACK = (signal.SIGINT, signal.SIGTERM)
MOST_REPORTED = 64 * 1024
STARTS = 5
"""Of a process whose start failed as something that it was to hide went away meanwhile, as folders
of other jobs on the machine do. Each looks anew for what is there."""


def has_gone(hidden_paths: Iterable[str]) -> bool:
    """Whether something that was to be hidden is not there any more."""
    return not all(map(os.path.lexists, hidden_paths))


@dataclass(frozen=True)
class LauncherReport:
    """What the launcher and the monitor said: the sandbox was complete; why not; what was refused
    to the tree later (each thing once, the first forty)."""

    ready: bool
    failed: str
    refused: tuple[str, ...]


@dataclass
class Launch:
    """One process to be started, with the descriptors that go to its launcher: by this process, or
    by its ``broker``, which makes the launcher's command itself."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    status: int | None = None
    confined: bool = True
    hidden_paths: tuple[str, ...] = ()
    broker: "Broker | None" = None
    _theirs: list[int] = field(default_factory=list, repr=False)
    _text: bytearray = field(default_factory=bytearray, repr=False)

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it, with three pipes and a session of its own. Once. Raises OSError.

        The calling thread has to outlive it: when the thread ends, so does the process.
        """
        # bwrap inherits the mask and the launcher lifts it: signals are for the program
        held = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK if self.confined else ())
        try:
            if self.broker:
                return self.broker.start(self.argv, *self._theirs)
            return subprocess.Popen(
                self.argv,
                cwd=self.cwd,
                env=self.env,
                pass_fds=tuple(self._theirs),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            self._close_theirs()

    def read_report(self) -> LauncherReport:
        """What has been said so far; to be asked after the end. Names in it are an agent's."""
        if not self.confined:
            return LauncherReport(True, "", ())
        with contextlib.suppress(BlockingIOError):
            while self.status is not None and len(self._text) < MOST_REPORTED:
                if not (part := os.read(self.status, 4096)):
                    break
                self._text += part
        lines = [format_path(line) for line in self._text.decode("utf-8", "replace").splitlines()]
        refused = [line.removeprefix("refused ") for line in lines if line.startswith("refused ")]
        failed = [line.removeprefix("failed ") for line in lines if line.startswith("failed ")]
        return LauncherReport("ready" in lines, next(iter(failed), ""), tuple(refused))

    def has_lost_hidden_path(self) -> bool:
        """True where it did not start and something that was to be hidden is gone."""
        return not self.read_report().ready and has_gone(self.hidden_paths)

    def close(self) -> None:
        """Close all descriptors; what was reported stays known."""
        self._close_theirs()
        self.read_report()
        if self.status is not None:
            os.close(self.status)
            self.status = None

    def _close_theirs(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())
