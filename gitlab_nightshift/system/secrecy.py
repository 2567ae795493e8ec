"""This process holds secrets: other processes of the same user may not look into it."""

import contextlib
import functools

PR_SET_DUMPABLE = 4


@functools.cache
def close_to_others() -> bool:
    """No other process without capabilities can read our environment or memory from now on, nor
    trace us (Linux); False where that is not available.

    There are no core dumps of this process then. Programs that it starts are as usual.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    return False
