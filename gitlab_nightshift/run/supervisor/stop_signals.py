"""Stops a run on SIGINT, SIGTERM, and faults that the supervisor notices, by a signal to the stage
that is running. Only the first reason counts."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from gitlab_nightshift.errors import STOPPED_BY_SIGNAL, Code, NightshiftError
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.system.signals import call_after, start_with_signals_blocked

GRACE_S = 300.0
"""Seconds until a stopped stage, which an agent may control, is killed: it has to restore first."""
_CODES = {signal.SIGINT: Code.INTERRUPTED, signal.SIGTERM: Code.TERMINATED}


class Signals:
    """Handles the signals of this process within ``with``: they stop the running stage, and the
    supervisor goes on to report."""

    def __init__(self) -> None:
        self._why: NightshiftError | None = None
        self._number = signal.SIGTERM
        self._received: list[int] = []
        self._current: StageProcess | None = None
        self._kill_timer: threading.Timer | None = None

    def __enter__(self) -> "Signals":
        self._replaced = {number: signal.signal(number, self._handle_signal) for number in _CODES}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._replaced.items():
            signal.signal(number, handler)

    @property
    def stopped(self) -> NightshiftError | None:
        """Why the run was stopped, None if it was not. No stage may start after that."""
        return self._why

    def stop(self, why: NightshiftError, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the run, unless it is stopped already. Can be called from any thread."""
        if self._why is None:
            self._number, self._why = number, why
            if current := self._current:
                self._signal_stage(current)

    @contextlib.contextmanager
    def stop_after(self, seconds: float | None, why: str) -> Iterator[None]:
        """Stop the run (``E_TIMEOUT``) if the block takes longer (None: no limit)."""
        if seconds is None:
            yield
            return
        with call_after(seconds, lambda: self.stop(NightshiftError(Code.TIMEOUT, why))):
            yield

    @contextlib.contextmanager
    def forward_to(self, stage: StageProcess) -> Iterator[None]:
        """Forward signals to this stage during the block."""
        self._current = stage
        # In this order, a signal that arrives in between is forwarded twice instead of never.
        if self._why:
            self._signal_stage(stage)
        try:
            yield
        finally:
            self._current = None
            if self._kill_timer:
                self._kill_timer.cancel()

    def _signal_stage(self, stage: StageProcess) -> None:
        stage.signal(self._number)
        self._kill_timer = threading.Timer(GRACE_S, stage.kill)
        self._kill_timer.daemon = True  # this process can end while it is pending
        start_with_signals_blocked(self._kill_timer)

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        # Another signal may interrupt this handler before it has called stop: the first one counts.
        self._received.append(number)
        first = signal.Signals(self._received[0])
        self.stop(NightshiftError(_CODES[first], STOPPED_BY_SIGNAL), first)
