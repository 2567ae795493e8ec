"""Removes the files that a run leaves in shared memory, which all jobs of a machine share."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.system.descendants import list_ancestors, list_parents
from gitlab_nightshift.system.openat import remove_path

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
            known = (status.st_dev, status.st_ino) in self.before
            if not known and status.st_uid == os.geteuid():
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
    parents = list_parents(os.geteuid())
    ours = {pid for pid, _ in list_ancestors()}
    return all(pid in ours or _lies_below(pid, parents) for pid in parents)


def _lies_below(pid: int, parents: dict[int, int]) -> bool:
    while pid := parents.get(pid, 0):
        if pid == os.getpid():
            return True
    return False
