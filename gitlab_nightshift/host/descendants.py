"""Find and end what a program left behind, also a daemon that left its process group."""

import contextlib
import functools
import os
import signal
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ENDING_S = 5.0


@functools.cache
def subreaper() -> bool:
    """Make orphans of our children our own children (Linux); False where it cannot be had."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    return False


def own_children() -> set[int]:
    """The pids of this process's children, of all its threads."""
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(int(pid) for pid in task.read_text().split())
    return found


def end_orphans(keep: set[int]) -> None:
    """Kill every child that is not in ``keep`` until none is left, for a bounded time.

    The descendants of a killed child become ours in the next round.
    """
    until = time.monotonic() + ENDING_S
    while (orphans := own_children() - keep) and time.monotonic() < until:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)
