"""Protects a process with secrets from other processes of the same user."""

import contextlib
import functools

PR_SET_DUMPABLE = 4


@functools.cache
def close_to_others() -> bool:
    """From now on, no other process without capabilities can read this process's environment or
    memory, or trace it (PR_SET_DUMPABLE, prctl(2)); False if that is not available.

    This process also writes no core dumps. It does not affect programs that it starts.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    return False
