"""What stops a run: SIGINT, SIGTERM, and faults that the supervisor notices. It is passed on once,
to the stage that runs."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from gitlab_nightshift.errors import STOPPED, Code, NightshiftError
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.system.signals import call_after, start_with_signals_blocked

GRACE_S = 300.0
"""Seconds that a stage has to end after it was stopped: it puts a checkout back. One that takes
longer may be controlled by an agent, and is killed."""
_CODES = {signal.SIGINT: Code.INTERRUPTED, signal.SIGTERM: Code.TERMINATED}


class Signals:
    """Within ``with``, signals stop a stage instead of the supervisor, which goes on to the end."""

    def __init__(self) -> None:
        self._why: NightshiftError | None = None
        self._number = signal.SIGTERM
        self._arrived: list[int] = []
        self._current: StageProcess | None = None
        self._killing: threading.Timer | None = None

    def __enter__(self) -> "Signals":
        self._old = {number: signal.signal(number, self._handle_signal) for number in _CODES}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    @property
    def stopped(self) -> NightshiftError | None:
        """Why the run was stopped, so that nothing more begins; None where it was not."""
        return self._why

    def stop(self, why: NightshiftError, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the run, unless that has been done; from any thread."""
        if self._why is None:
            self._number, self._why = number, why
            if current := self._current:
                self._tell(current)

    @contextlib.contextmanager
    def stop_after(self, seconds: float | None, why: str) -> Iterator[None]:
        """Stop the run (``E_TIMEOUT``) so long from now, unless the block has been left."""
        if seconds is None:
            yield
            return
        with call_after(seconds, lambda: self.stop(NightshiftError(Code.TIMEOUT, why))):
            yield

    @contextlib.contextmanager
    def forward_to(self, stage: StageProcess) -> Iterator[None]:
        """Within the block, signals are passed on to this stage, also one that came just before."""
        self._current = stage
        if self._why:
            self._tell(stage)
        try:
            yield
        finally:
            self._current = None
            if self._killing:
                self._killing.cancel()

    def _tell(self, stage: StageProcess) -> None:
        stage.signal(self._number)
        self._killing = threading.Timer(GRACE_S, stage.kill)
        self._killing.daemon = True
        start_with_signals_blocked(self._killing)

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        self._arrived.append(number)  # another one may come while this one is handled
        first = signal.Signals(self._arrived[0])
        self.stop(NightshiftError(_CODES[first], STOPPED), first)
