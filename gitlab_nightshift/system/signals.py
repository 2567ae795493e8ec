"""SIGINT and SIGTERM become one exception, which waits where a step must not be cut in two."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from gitlab_nightshift.errors import Code, Interruption

_CODES = {signal.SIGINT: Code.INTERRUPTED, signal.SIGTERM: Code.TERMINATED}


class _Cancellation:
    """Raised once: a second signal does not cut the tidying up short."""

    def __init__(self) -> None:
        self.shields = 0
        self.pending: Code | None = None
        self.raised = False

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        if not self.raised:
            self.pending = self.pending or _CODES[signal.Signals(number)]
            self.deliver()

    def deliver(self) -> None:
        if self.pending and not self.shields:
            code, self.pending, self.raised = self.pending, None, True
            raise Interruption(code)


_cancellation = _Cancellation()


@contextlib.contextmanager
def enable_cancellation() -> Iterator[None]:
    """Within this block SIGINT and SIGTERM raise :class:`Interruption` in the main thread."""
    global _cancellation  # noqa: PLW0603
    outer, _cancellation = _cancellation, _Cancellation()
    old = {number: signal.signal(number, _cancellation.handle_signal) for number in _CODES}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        _cancellation = outer


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the end of this block, also where it fails.

    Only the main thread is interrupted, so in others there is nothing to hold back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = _cancellation
    held.shields += 1
    try:
        yield
    finally:
        held.shields -= 1
        held.deliver()


def start_deaf(thread: threading.Thread) -> None:
    """Start a thread that gets no SIGINT and no SIGTERM.

    Where two come at once the kernel may give both to a thread that only waits, and the main one,
    in which Python handles them, sleeps on in its system call.
    """
    old = signal.pthread_sigmask(signal.SIG_BLOCK, _CODES)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@contextlib.contextmanager
def call_late(seconds: float, call: Callable[[], object]) -> Iterator[None]:
    """Call it so long from now, unless the block has been left."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    start_deaf(timer)
    try:
        yield
    finally:
        timer.cancel()
