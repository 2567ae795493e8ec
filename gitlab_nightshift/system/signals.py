"""Turns SIGINT and SIGTERM into one exception, which a step can defer until its end."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from gitlab_nightshift.errors import Code, Interruption

_CODES = {signal.SIGINT: Code.INTERRUPTED, signal.SIGTERM: Code.TERMINATED}


class _Cancellation:
    """The signals within a block: the first one raises Interruption, at once or once no step defers
    it. Later ones do nothing, so that they do not interrupt the clean-up."""

    def __init__(self) -> None:
        self.deferrals = 0
        self.pending: Code | None = None
        self.raised = False

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        if not self.raised:
            self.pending = self.pending or _CODES[signal.Signals(number)]
            self.deliver()

    def deliver(self) -> None:
        if self.pending and not self.deferrals:
            code, self.pending, self.raised = self.pending, None, True
            raise Interruption(code)


_cancellation = _Cancellation()


@contextlib.contextmanager
def enable_cancellation() -> Iterator[None]:
    """Within this block SIGINT and SIGTERM raise :class:`Interruption` in the main thread."""
    global _cancellation  # noqa: PLW0603
    outer, _cancellation = _cancellation, _Cancellation()
    old_handlers = {number: signal.signal(number, _cancellation.handle_signal) for number in _CODES}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        _cancellation = outer


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Defer SIGINT and SIGTERM until the end of this block, even if it fails.

    Python runs signal handlers only in the main thread, so in others there is nothing to defer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A local name: a block of enable_cancellation that begins inside this one replaces the global.
    cancellation = _cancellation
    cancellation.deferrals += 1
    try:
        yield
    finally:
        cancellation.deferrals -= 1
        cancellation.deliver()


def start_with_signals_blocked(thread: threading.Thread) -> None:
    """Start a thread with SIGINT and SIGTERM blocked.

    The kernel may deliver a signal to any thread that does not block it (signal(7)). If a waiting
    thread got it, the main thread, in which Python handles it, would sleep on in its system call.
    """
    # A new thread inherits its creator's mask (pthread_sigmask(3)).
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _CODES)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


@contextlib.contextmanager
def call_after(seconds: float, call: Callable[[], object]) -> Iterator[None]:
    """Call ``call`` after ``seconds``, unless the block has ended by then."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    start_with_signals_blocked(timer)
    try:
        yield
    finally:
        timer.cancel()
