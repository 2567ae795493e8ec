"""The two processes of a real start (``sealed_entry.py``) for one that forks from ``warm.py``."""

import os
import signal
import sys

from gitlab_nightshift import sealed_entry, sealed_start

PATCH = "from tests.support import watched; watched.enter()"
"""The patch of a world: its commands are watched over."""


def enter() -> None:
    """Wait for the command and end as it does; only the command comes back."""
    start = sealed_start.prepare_start(sys.argv[1:], os.environ)
    own = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, sealed_entry.FORWARDED_SIGNALS)
    if command := os.fork():
        sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
        os._exit(sealed_entry.wait_for_command(command, start.descriptor, None))
    sealed_entry.end_with_parent(own)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, sealed_entry.FORWARDED_SIGNALS)
