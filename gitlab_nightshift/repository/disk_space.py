"""Detects a full disk, and reports it as the cause of a failure."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, build_config_error, is_disk_full
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.system.disk_reserve import FULL_BYTES

QUOTA_S = 0.2
"""Seconds between two checks of quotas."""
FEWEST_INODES = 8
"""A disk with fewer free inodes is full."""
_NO_SPACE_MESSAGES = (b"No space left on device", b"Disk quota exceeded", b"Out of diskspace")


@dataclass(frozen=True)
class Disks:
    """The disks of some folders; a quota counts as a disk, too."""

    folders: tuple[Path, ...]

    def find_full(self, *, quotas: bool = True) -> Path | None:
        """The first folder whose disk is full, by its free bytes or inodes or, with ``quotas``, by
        a quota. None if there is none."""
        full = next((folder for folder in self.folders if _is_full(folder)), None)
        return full or next(filter(_is_quota_exceeded, self.folders if quotas else ()), None)

    def check(self) -> None:
        """Raise NightshiftError (``E_CONFIG``) if a disk is full."""
        if folder := self.find_full():
            raise build_no_space_error(folder)


class DiskWatch:
    """Looks for a full disk while a program runs. Quotas are checked only every ``QUOTA_S``
    seconds, as each check makes a file."""

    def __init__(self, disks: Disks) -> None:
        self._disks, self._next_s = disks, time.monotonic() + QUOTA_S

    def find_full(self) -> Path | None:
        """The first folder whose disk is full; None if there is none."""
        due = time.monotonic() >= self._next_s
        if due:
            self._next_s = time.monotonic() + QUOTA_S
        return self._disks.find_full(quotas=due)


def _is_full(folder: Path) -> bool:
    try:
        status = os.statvfs(folder)
    except OSError:  # without a boundary, an agent may have removed it
        return False
    counts_inodes = status.f_files > 0  # some file systems, such as btrfs, report no number
    few_inodes = counts_inodes and status.f_favail < FEWEST_INODES
    return status.f_bavail * status.f_frsize < FULL_BYTES or few_inodes


def _is_quota_exceeded(folder: Path) -> bool:
    """True if the folder has no space for a file of ``FULL_BYTES``: statvfs does not show most
    quotas. The file has no name (O_TMPFILE); a file system without such files counts as free."""
    try:
        fd = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return is_disk_full(error)
    try:
        os.posix_fallocate(fd, 0, FULL_BYTES)  # allocates blocks, so a quota applies
    except OSError as error:
        return is_disk_full(error)
    finally:
        os.close(fd)
    return False


def is_full_disk(error: BaseException) -> bool:
    """True if something, git included, failed because of a full disk."""
    if isinstance(error, GitError):
        return any(message in error.stderr for message in _NO_SPACE_MESSAGES)
    return isinstance(error, OSError) and is_disk_full(error)


@contextlib.contextmanager
def report_full_disk(*folders: Path) -> Iterator[None]:
    """Raise NightshiftError (``E_CONFIG``) if the block fails because of a full disk."""
    try:
        yield
    except (OSError, GitError) as error:
        if not is_full_disk(error):
            raise
        raise build_no_space_error(*folders) from None


def build_no_space_error(*folders: Path) -> NightshiftError:
    """The error for a full disk, which names the fullest of these folders."""
    fullest = min(folders, key=lambda folder: shutil.disk_usage(folder).free)
    return build_config_error(
        f"no space left on the disk of {fullest}: free some, or put it elsewhere"
        " (TMPDIR for temporary files, the runner's builds_dir for the checkout)"
    )
