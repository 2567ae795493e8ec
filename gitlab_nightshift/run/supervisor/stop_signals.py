"""What stops a run: SIGINT, SIGTERM, and faults that the supervisor notices. A run is stopped once,
by a signal to the stage that is running; later reasons change nothing."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from gitlab_nightshift.errors import STOPPED_BY_SIGNAL, Code, NightshiftError
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.system.signals import call_after, start_with_signals_blocked

GRACE_S = 300.0
"""Seconds that a stopped stage has to restore the checkout and end. One that takes longer may be
controlled by an agent, and is killed."""
_CODES = {signal.SIGINT: Code.INTERRUPTED, signal.SIGTERM: Code.TERMINATED}


class Signals:
    """Handles the signals of this process within ``with``: they stop the running stage, and the
    supervisor goes on to report."""

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
        """Why the run was stopped, so that no stage may start; None if it was not."""
        return self._why

    def stop(self, why: NightshiftError, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the run, unless it is stopped already. Callable from any thread."""
        if self._why is None:
            self._number, self._why = number, why
            if current := self._current:
                self._signal_stage(current)

    @contextlib.contextmanager
    def stop_after(self, seconds: float | None, why: str) -> Iterator[None]:
        """Stop the run (``E_TIMEOUT``) after so many seconds, unless the block has been left."""
        if seconds is None:
            yield
            return
        with call_after(seconds, lambda: self.stop(NightshiftError(Code.TIMEOUT, why))):
            yield

    @contextlib.contextmanager
    def forward_to(self, stage: StageProcess) -> Iterator[None]:
        """Pass signals on to this stage during the block."""
        self._current = stage
        # In this order: a signal that arrives between the two lines is passed on twice, not lost.
        if self._why:
            self._signal_stage(stage)
        try:
            yield
        finally:
            self._current = None
            if self._killing:
                self._killing.cancel()

    def _signal_stage(self, stage: StageProcess) -> None:
        stage.signal(self._number)
        self._killing = threading.Timer(GRACE_S, stage.kill)
        self._killing.daemon = True  # a pending kill does not keep this process from ending
        start_with_signals_blocked(self._killing)

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        self._arrived.append(number)  # a second signal may interrupt this handler: the first counts
        first = signal.Signals(self._arrived[0])
        self.stop(NightshiftError(_CODES[first], STOPPED_BY_SIGNAL), first)
