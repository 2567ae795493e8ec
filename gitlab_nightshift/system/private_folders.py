"""The folders of a run, and the leftovers of killed runs.

A run holds a lock in each of its folders as long as it lives, so that nobody has to guess by age
or pid whether a folder is a leftover.
"""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gitlab_nightshift.system.file_names import choose_short_parent
from gitlab_nightshift.system.openat import remove_tree

PRIVATE_PREFIX, SCRATCH_PREFIX = "nightshift-", "ns-"
"""Of the names of a run's private folder, and of the one around the agents' folders."""
LOCK_FILE, CHECKOUT_FILE, SCRATCH = "lock", "checkout", "s"
"""Names in such a folder: the lock, the file with the checkout's path, the agents' part."""


@contextlib.contextmanager
def open_private_folder(
    parent: Path, checkout: Path, prefix: str = PRIVATE_PREFIX
) -> Iterator[Path]:
    """A new folder in ``parent`` that only this user can enter, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))  # mode 0700 (mkdtemp(3))
    # O_CLOEXEC: a child that outlives the run must not keep the lock.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    lock = os.open(folder / LOCK_FILE, flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # From here on, another run can tell to which checkout the folder belongs.
        (folder / CHECKOUT_FILE).write_bytes(os.fsencode(checkout))
        yield folder
    finally:
        remove_tree(folder)
        os.close(lock)


@contextlib.contextmanager
def open_scratch_folder(parent: Path, checkout: Path) -> Iterator[Path]:
    """A new folder for agents' folders, below ``parent``, or below /tmp if the paths of sockets
    would be too long.

    It lies inside a folder of the run that others may only enter: an agent cannot change the lock
    or ``CHECKOUT_FILE`` there, and so cannot make that folder look like a leftover.
    """
    with open_private_folder(choose_short_parent(parent), checkout, SCRATCH_PREFIX) as folder:
        scratch = folder / SCRATCH
        scratch.mkdir()
        for path in (folder, scratch):
            path.chmod(0o711)
        yield scratch


def remove_leftovers(parent: Path, checkout: Path, recover: Callable[[Path], None]) -> None:
    """Remove the folders in ``parent`` that killed runs of this user in ``checkout`` left.
    ``recover`` is called with each private folder before its removal.

    The leftovers of another checkout stay for the next run in it, unless that checkout is gone.
    """
    with os.scandir(parent) as entries:
        names = sorted(entry.name for entry in entries if _is_run_folder(entry))
    for folder in (parent / name for name in names):
        with _lock_ended_run(folder) as run_checkout:
            if run_checkout == checkout and folder.name.startswith(PRIVATE_PREFIX):
                recover(folder)
            if run_checkout and (run_checkout == checkout or not run_checkout.exists()):
                remove_tree(folder)


def remove_all_leftovers(parent: Path, checkout: Path) -> None:
    """Remove what killed runs in a checkout left below ``parent``."""
    # Twice: folders whose checkout is a private one can only be removed once that is gone.
    for _ in range(2):
        for folder in (parent, choose_short_parent(parent)):
            remove_leftovers(folder, checkout, lambda _leftover: None)


def _is_run_folder(entry: "os.DirEntry[str]") -> bool:
    """True for a folder of a run of this user."""
    if not entry.name.startswith((PRIVATE_PREFIX, SCRATCH_PREFIX)):
        return False
    with contextlib.suppress(FileNotFoundError):
        status = entry.stat(follow_symlinks=False)
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return False


@contextlib.contextmanager
def _lock_ended_run(folder: Path) -> Iterator[Path | None]:
    """Lock the folder of an ended run, and yield the run's checkout; None if the run may be
    alive."""
    try:
        # Not created: a folder without a lock is that of a run that has just begun, or not a run's.
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield None
        return
    try:
        yield _lock_and_read_checkout(folder, lock)
    finally:
        os.close(lock)


def _lock_and_read_checkout(folder: Path, lock: int) -> Path | None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Path(os.fsdecode((folder / CHECKOUT_FILE).read_bytes()))
    except OSError:
        return None
