"""An event loop in a thread of its own: the gateway's, beside tests that block."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
JOIN_S = 1.0


class LoopThread:
    """Runs coroutines for other threads. ``fault`` gets the name of what went wrong unseen."""

    def __init__(self, name: str, fault: Callable[[str], None]) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: fault(_named(context)))
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """The result of ``work``. Raises ``TimeoutError`` after so many seconds."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def stop(self) -> None:
        """End all that still runs, and the thread."""
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _end(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.call_later(0.05 if tasks else 0, self._loop.stop)


def _named(context: dict[str, Any]) -> str:
    return type(context.get("exception")).__name__


@contextlib.contextmanager
def bound(path: Path | None) -> Iterator[socket.socket | None]:
    """A UNIX socket at a path, as the work makes it for the gateway; None for none."""
    if path is None:
        yield None
        return
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))
        path.chmod(0o600)
        yield unix.dup()  # who listens closes its own
