"""Undoes what the work process can change outside its folders: the modes of folders that the
supervisor has to enter, and the files in shared memory, which all jobs of a machine use.
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
class FolderModes:
    """The modes of folders, by path, as they were before agents ran; outer folders come first."""

    modes: Mapping[Path, int]

    def restore(self) -> None:
        """Restore the modes, as far as possible."""
        # Without a broker (sandbox/broker_client.py) work can change them: it has the same user,
        # and Landlock does not check chmod. The real .git in one of these folders has to be moved
        # back.
        for path, mode in self.modes.items():
            with contextlib.suppress(OSError):
                if stat.S_IMODE(path.lstat().st_mode) != mode:
                    os.chmod(path, mode)  # noqa: PTH101 - of a folder that cannot be replaced


def record_modes(paths: Iterable[Path]) -> FolderModes:
    """The modes of the folders above these paths that this user owns."""
    modes = dict[Path, int]()
    for path in paths:
        # Outer folders first: inner ones can be reached only once these can be entered.
        for folder in reversed(path.parents):
            status = folder.stat()
            if status.st_uid == os.geteuid():
                modes[folder] = stat.S_IMODE(status.st_mode)
    return FolderModes(modes)


# --- shared memory --------------------------------------------------------------------------------


SHARED_FOLDER = Path("/dev/shm")  # noqa: S108 - the kernel's name


@dataclass(frozen=True)
class SharedMemory:
    """The devices and inodes of the files in shared memory before agents ran."""

    existing: frozenset[tuple[int, int]]

    def remove_new(self) -> None:
        """Remove this user's new files, once work and agents have ended.

        A file does not show which job made it. So nothing is removed if this user has another
        process that is neither an ancestor nor a descendant of this one: it may be another job's.
        """
        if _has_unrelated_processes():
            return
        for path, status in _list_shared_files():
            existed = (status.st_dev, status.st_ino) in self.existing
            if not existed and status.st_uid == os.geteuid():
                with contextlib.suppress(OSError):
                    remove_path(path)


def record_shared_memory() -> SharedMemory:
    """Record the files that exist now."""
    files = _list_shared_files()
    return SharedMemory(frozenset((status.st_dev, status.st_ino) for _, status in files))


def _list_shared_files() -> Iterator[tuple[Path, os.stat_result]]:
    with contextlib.suppress(OSError):
        for path in list(SHARED_FOLDER.iterdir()):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.lstat()


def _has_unrelated_processes() -> bool:
    """True if a process of this user is neither an ancestor nor a descendant of this one."""
    parents = read_parents(os.geteuid())
    ancestors = {pid for pid, _ in list_ancestors()}
    return not all(pid in ancestors or _descends(pid, parents) for pid in parents)


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid := parents.get(pid, 0):
        if pid == os.getpid():
            return True
    return False
