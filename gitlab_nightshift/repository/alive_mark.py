"""A file in a checkout's state folder whose ctime shows how long a run was alive.

Agents can make their throw-away ``.git`` look as if somebody had used it since. But dead agents
change nothing, and nobody can set a ctime (utimensat(2)).
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.system.signals import start_with_signals_blocked

MARK = "alive"
BEAT_S, MARGIN_S = 1.0, 10.0
"""Seconds between two marks, and seconds after the last one in which a run may have been alive."""


@contextlib.contextmanager
def keep_marked(folder: Path) -> Iterator[None]:
    """Keep the mark up to date while the block runs. Raises OSError."""
    mark, ended = folder / MARK, threading.Event()
    mark.touch()

    def mark_on() -> None:
        with contextlib.suppress(OSError):
            while not ended.wait(BEAT_S):
                os.utime(mark)  # sets the ctime too, which nobody can forge (utimensat(2))

    marking = threading.Thread(target=mark_on)
    start_with_signals_blocked(marking)
    try:
        yield
    finally:
        ended.set()
        marking.join()


def is_changed_since(folder: Path, path: Path) -> bool:
    """True if ``path``, or a name in it, was changed after the run of this state folder had died;
    also if there is no mark, or ``path`` is gone."""
    try:
        return path.lstat().st_ctime > (folder / MARK).stat().st_ctime + MARGIN_S
    except FileNotFoundError:
        return True
