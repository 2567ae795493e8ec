"""Undoes what work can change outside its folders: the modes of folders that the supervisor has to
enter, and files in shared memory, which all jobs of a machine share.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.system.openat import remove_path
from gitlab_nightshift.system.processes import list_ancestors, read_parents

# --- modes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeptModes:
    """The saved modes by path, the outer folders first."""

    modes: Mapping[Path, int]

    def restore(self) -> None:
        """Restore them. Without a broker (``sandbox/broker_client.py``) work can change them as the
        same user, which Landlock does not check: if a folder can no longer be entered, the real
        ``.git`` cannot be moved back."""
        for path, mode in self.modes.items():
            with contextlib.suppress(OSError):
                if stat.S_IMODE(path.lstat().st_mode) != mode:
                    os.chmod(path, mode)  # noqa: PTH101 - of a folder that cannot be replaced


def keep_modes(paths: Iterable[Path]) -> KeptModes:
    """The modes of the folders above these paths that this user owns."""
    modes = dict[Path, int]()
    # The outer ones first: a folder can be reached once those above it can be entered.
    for folder in (folder for path in paths for folder in reversed(path.parents)):
        status = folder.stat()
        if status.st_uid == os.geteuid():
            modes[folder] = stat.S_IMODE(status.st_mode)
    return KeptModes(modes)


# --- shared memory --------------------------------------------------------------------------------


FOLDER = Path("/dev/shm")  # noqa: S108 - the kernel's name


@dataclass(frozen=True)
class SharedMemory:
    """The files in the folder before agents ran, by device and inode."""

    before: frozenset[tuple[int, int]]

    def remove_new(self) -> None:
        """Remove this user's new files, once work and agents have ended.

        A file does not show which job made it. So nothing is removed if this user has another
        process that is neither an ancestor nor a descendant of this one: it may be another job's.
        """
        if not _has_no_other_processes():
            return
        for path, status in _list():
            existed = (status.st_dev, status.st_ino) in self.before
            if not existed and status.st_uid == os.geteuid():
                with contextlib.suppress(OSError):
                    remove_path(path)


def look_at_shared_memory() -> SharedMemory:
    """Record the files that exist now."""
    return SharedMemory(frozenset((status.st_dev, status.st_ino) for _, status in _list()))


def _list() -> Iterator[tuple[Path, os.stat_result]]:
    with contextlib.suppress(OSError):
        for path in list(FOLDER.iterdir()):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.lstat()


def _has_no_other_processes() -> bool:
    """True if all of this user's processes are ancestors or descendants of this one."""
    parents = read_parents(os.geteuid())
    ours = {pid for pid, _ in list_ancestors()}
    return all(pid in ours or _lies_below(pid, parents) for pid in parents)


def _lies_below(pid: int, parents: dict[int, int]) -> bool:
    while pid := parents.get(pid, 0):
        if pid == os.getpid():
            return True
    return False
