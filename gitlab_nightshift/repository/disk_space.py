"""A full disk: noticed while something runs, and reported as that."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, build_config_error, is_disk_full
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.system.disk_reserve import FULL_BYTES

FULL_FILES = 8
"""A disk on which fewer files can still be made is full. A quota counts as a disk, too."""
_WORDS = (b"No space left on device", b"Disk quota exceeded", b"Out of diskspace")


@dataclass(frozen=True)
class Disks:
    """The disks of some folders."""

    places: tuple[Path, ...]

    def find_full(self) -> Path | None:
        """The first folder whose disk is full, by its bytes or its number of files."""
        return next((place for place in self.places if _is_full(place)), None)

    def check(self) -> None:
        """Raise NightshiftError (``E_CONFIG``) where one is full."""
        if place := self.find_full():
            raise build_no_space_error(place)


def _is_full(place: Path) -> bool:
    try:
        found = os.statvfs(place)
    except OSError:  # without a boundary an agent can have removed it
        return False
    counted = found.f_files > 0  # some file systems have no fixed number
    few_files = counted and found.f_favail < FULL_FILES
    return found.f_bavail * found.f_frsize < FULL_BYTES or few_files or _is_refused(place)


def _is_refused(place: Path) -> bool:
    """True where a file of that size is refused for lack of space: most quotas do not show in what
    the file system reports. The file has no name; where there are none such, nothing is known."""
    try:
        fd = os.open(place, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return is_disk_full(error)
    try:
        os.posix_fallocate(fd, 0, FULL_BYTES)
    except OSError as error:
        return is_disk_full(error)
    finally:
        os.close(fd)
    return False


def is_full_disk(error: BaseException) -> bool:
    """True where a full disk is why something failed, git among it."""
    if isinstance(error, GitError):
        return any(words in error.stderr for words in _WORDS)
    return isinstance(error, OSError) and is_disk_full(error)


@contextlib.contextmanager
def report_full_disk(*places: Path) -> Iterator[None]:
    """Raises NightshiftError (``E_CONFIG``) where the block finds the disk of a place full."""
    try:
        yield
    except (OSError, GitError) as error:
        if not is_full_disk(error):
            raise
        raise build_no_space_error(*places) from None


def build_no_space_error(*places: Path) -> NightshiftError:
    """What to do about a full disk: the fullest of these."""
    fullest = min(places, key=lambda place: shutil.disk_usage(place).free)
    return build_config_error(
        f"no space left on the disk of {fullest}: free some, or put it elsewhere"
        " (TMPDIR for temporary files, the runner's builds_dir for the checkout)"
    )
