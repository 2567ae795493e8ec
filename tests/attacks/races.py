"""What attacks need that change a thing while it is looked at. Standard library only: this runs
inside the sandbox.
"""

import contextlib
import mmap
import os
import time
from collections.abc import Callable, Iterator

from tests.attacks.places import LONG_S

MOVES = 100


def beside(deed: Callable[[], object]) -> Callable[[], int]:
    """Let another process do this again and again while this one lives; the result says how often
    it has."""
    own, counts = os.getpid(), memoryview(mmap.mmap(-1, 8)).cast("Q")
    if os.fork() == 0:
        with contextlib.suppress(BaseException):
            while os.getppid() == own:
                deed()
                counts[0] += 1
        os._exit(0)
    return lambda: counts[0]


def rewriting(shared: mmap.mmap, at: int, *values: bytes) -> Callable[[], int]:
    """Let another process write these values to the same place in turn."""

    def rewrite() -> None:
        for value in values * 50:
            shared[at : at + len(value)] = value

    return beside(rewrite)


def tries(least: int, done: Callable[[], int]) -> Iterator[None]:
    """At least ``least`` tries, and more until the other side has moved in MOVES of them: a
    thousand tries while it waits for its turn would meet one state only. Ends after LONG_S."""
    until = time.monotonic() + LONG_S
    number, moves, before = 0, 0, done()
    while (number < least or moves < MOVES) and time.monotonic() < until:
        yield
        now = done()
        number, moves, before = number + 1, moves + (now != before), now
