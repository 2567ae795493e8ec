"""Protects this program from other processes of its user, and from code that an agent writes."""

import contextlib
import functools
import sys
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.sealed_start import lies_in

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


def refuse_installation_in(checkout: Path) -> None:
    """Raise E_CONFIG if this process could import files that an agent writes."""
    for part in (sys.executable, *sys.path):
        if lies_in(Path(part or "."), checkout):
            raise build_config_error(
                f"nightshift runs from {part or 'the current folder'}, in the checkout, where"
                " agents write: install it elsewhere, such as python3 -m venv /opt/nightshift"
            )
