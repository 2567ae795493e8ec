"""A limit for what must not run away: in seconds of this process, whatever else is running."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 120.0
"""Each use takes a few at most: only steps that multiply with the input get there."""
BYTES = 4 << 30


class RanAway(Exception):
    """It took far more than its input can explain."""


@contextmanager
def bounded() -> Iterator[None]:
    """Ends what runs or grows without end: RanAway, or MemoryError."""
    before = signal.signal(signal.SIGVTALRM, _raise)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def _raise(_number: int, _frame: object) -> None:
    raise RanAway(f"{SECONDS} s")
