"""A checkout's state folder, shared by several runs that only read the checkout.

The first run makes it, the last one removes it. Any other kind of run needs it for itself. It
records the modes of files that are closed meanwhile: the last run, or the next start after a kill,
restores them.
"""

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository.state_folder import (
    LOCK,
    SHARED,
    LockedStateFolder,
    build_another_night_error,
    find_state_folder,
    hold,
    read_note,
)
from gitlab_nightshift.system.signals import defer_signals

MODES = "modes.json"
_TRIES, _PAUSE_S = 600, 0.05
"""Attempts, and seconds between them, while another run makes or removes the folder."""


def is_shared(checkout: Path, spare: Path) -> bool:
    """True if reading runs hold the checkout, or have left its folder behind."""
    folder = find_state_folder(checkout, spare)
    return folder is not None and (folder / SHARED).exists()


@contextlib.contextmanager
def share(checkout: Path, spare: Path) -> Iterator[LockedStateFolder]:
    """Hold the folder together with other runs. Raises what ``hold`` raises."""
    held = _join_or_make(checkout, spare)
    try:
        yield held
    finally:
        with defer_signals():
            _leave(held)


@contextlib.contextmanager
def lock_step(folder: Path) -> Iterator[None]:
    """During the block, no run that shares the folder begins or ends."""
    with (folder / SHARED).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def restrict_access(folder: Path, paths: Iterable[Path]) -> None:
    """Remove everybody else's rights to these files and folders until the last run has left.

    Otherwise an agent that runs as another user could read them. Skips missing ones.
    """
    note = folder / MODES
    with lock_step(folder), defer_signals():
        if note.exists():
            return
        modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in paths if path.exists()}
        note.with_suffix(".new").write_text(json.dumps(modes))
        note.with_suffix(".new").rename(note)  # before the first chmod: a kill must not lose them
        for name, mode in modes.items():
            os.chmod(name, mode & stat.S_IRWXU)  # noqa: PTH101 - of a name


def restore_modes(folder: Path) -> None:
    """Undo ``restrict_access``, once no run is left."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        for name, mode in json.loads((folder / MODES).read_text()).items():
            with contextlib.suppress(FileNotFoundError):
                os.chmod(name, mode)  # noqa: PTH101


def _join_or_make(checkout: Path, spare: Path) -> LockedStateFolder:
    for _ in range(_TRIES):
        if joined := _join(checkout, spare):
            return joined
        try:
            return hold(checkout, spare, shared=True)
        except NightshiftError:
            if not is_shared(checkout, spare):
                raise
        time.sleep(_PAUSE_S)
    folder = find_state_folder(checkout, spare)
    raise build_another_night_error(checkout, read_note(folder) if folder else None)


def _join(checkout: Path, spare: Path) -> LockedStateFolder | None:
    folder = find_state_folder(checkout, spare)
    if folder is None or not (folder / SHARED).exists():
        return None
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # Else the last run has removed the folder, and another one made a new one with a new lock.
        if os.path.samestat(os.fstat(lock), (folder / LOCK).stat()):
            return LockedStateFolder(folder, lock)
    except OSError:  # the last one is about to remove it
        pass
    os.close(lock)
    return None


def _leave(held: LockedStateFolder) -> None:
    with lock_step(held.folder):
        try:
            fcntl.flock(held.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held.lock)
            held.lock = -1
            return
        restore_modes(held.folder)
        held.close()
