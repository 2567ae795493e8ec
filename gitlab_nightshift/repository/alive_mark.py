"""A file in a checkout's state folder that shows until when a run was alive.

Agents can make their throw-away ``.git`` look as if somebody had gone on in it. They cannot change
anything once they are dead, nor set the time at which something was changed.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.system.signals import start_deaf

MARK = "alive"
BEAT_S, MARGIN_S = 1.0, 10.0
"""Seconds between two marks, and after the last one in which a run may have been alive."""


@contextlib.contextmanager
def keep_marked(folder: Path) -> Iterator[None]:
    """Mark within the block that the run is alive. Raises OSError."""
    mark, ended = folder / MARK, threading.Event()
    mark.touch()

    def mark_on() -> None:
        with contextlib.suppress(OSError):
            while not ended.wait(BEAT_S):
                os.utime(mark)

    marking = threading.Thread(target=mark_on)
    start_deaf(marking)
    try:
        yield
    finally:
        ended.set()
        marking.join()


def is_changed_since(folder: Path, path: Path) -> bool:
    """Whether ``path`` was changed after the run of this state folder had died, by its names in it
    or itself; True where nobody has marked that, or it is gone."""
    try:
        return path.lstat().st_ctime > (folder / MARK).stat().st_ctime + MARGIN_S
    except FileNotFoundError:
        return True
