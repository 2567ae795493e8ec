"""The folders of a run, and the leftovers of killed runs.

A run holds a lock in each of its folders as long as it lives, so that nobody has to guess by age
or pid whether a folder is a leftover.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gitlab_nightshift.system.file_names import choose_short_parent
from gitlab_nightshift.system.openat import remove_tree

PRIVATE, SCRATCH = "nightshift-", "ns-"
"""Prefixes of the names: of a run's private folder, and of the one with the agents' folders."""
LOCK, OWNER, INNER = "lock", "checkout", "s"
"""Names in such a folder: the lock, the file that names the run's checkout, the agents' part."""


@contextlib.contextmanager
def open_private_folder(parent: Path, checkout: Path, kind: str = PRIVATE) -> Iterator[Path]:
    """A new folder in ``parent`` that only this user can enter, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=kind, dir=parent))  # mode 0700 (mkdtemp(3))
    # O_CLOEXEC: a child that outlives the run must not keep the lock.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    lock = os.open(folder / LOCK, flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # From here on, another run can tell to which checkout the folder belongs.
        (folder / OWNER).write_bytes(os.fsencode(checkout))
        yield folder
    finally:
        remove_tree(folder)
        os.close(lock)


@contextlib.contextmanager
def open_scratch_folder(parent: Path, checkout: Path) -> Iterator[Path]:
    """A new folder for agents' folders, below ``parent``, or below /tmp if the paths of sockets
    would be too long.

    It lies inside a folder of the run that others may only enter: an agent can reach neither the
    lock nor the owner file in that one, and so cannot make it look like a leftover.
    """
    with open_private_folder(choose_short_parent(parent), checkout, SCRATCH) as folder:
        scratch = folder / INNER
        scratch.mkdir()
        for path in (folder, scratch):
            path.chmod(0o711)
        yield scratch


def remove_leftovers(parent: Path, checkout: Path, recover: Callable[[Path], None]) -> None:
    """Remove the folders in ``parent`` that killed runs of this user in ``checkout`` left, each
    private folder after a call of ``recover`` with it.

    The leftovers of another checkout stay for the next run in it, unless that checkout is gone.
    """
    with os.scandir(parent) as listed:
        names = [item.name for item in listed if _is_ours(item)]
    for folder in (parent / name for name in sorted(names)):
        with _lock_ended_run(folder) as owner:
            if owner == checkout and folder.name.startswith(PRIVATE):
                recover(folder)
            if owner and (owner == checkout or not owner.exists()):
                remove_tree(folder)


def remove_all_leftovers(parent: Path, checkout: Path) -> None:
    """Remove what killed runs in a checkout left below ``parent``."""
    # Twice: folders whose checkout is a private one can only be removed once that is gone.
    for folder in 2 * (parent, choose_short_parent(parent)):
        remove_leftovers(folder, checkout, lambda _leftover: None)


def _is_ours(item: "os.DirEntry[str]") -> bool:
    if not item.name.startswith((PRIVATE, SCRATCH)) or not item.is_dir(follow_symlinks=False):
        return False
    with contextlib.suppress(FileNotFoundError):
        return item.stat(follow_symlinks=False).st_uid == os.geteuid()
    return False


@contextlib.contextmanager
def _lock_ended_run(folder: Path) -> Iterator[Path | None]:
    """Lock the folder of an ended run, and give the run's checkout; None if the run may be
    alive."""
    try:
        # Not created: a folder without a lock is that of a run that has just begun, or not a run's.
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield None
        return
    try:
        yield _read_owner(folder, lock)
    finally:
        os.close(lock)


def _read_owner(folder: Path, lock: int) -> Path | None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Path(os.fsdecode((folder / OWNER).read_bytes()))
    except OSError:
        return None
