"""A full disk: noticed while something runs, told as what it is, and met with a reserve."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, config_error, is_disk_full
from gitlab_nightshift.host.git import GitError

RESERVE_BYTES = 8_000_000
FULL_BYTES, FULL_FILES = 128 * 1024, 8
"""A disk with less is full: bytes, and files that can still be made."""
_WORDS = (b"No space left on device", b"Disk quota exceeded", b"Out of diskspace")


@dataclass(frozen=True)
class Reserve:
    """A file that only takes up space, so that there is some for what has to be written."""

    path: Path

    def hold(self) -> None:
        """Take the space, where there is enough of it."""
        try:
            with self.path.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except FileExistsError:
            return
        except OSError:
            self.path.unlink(missing_ok=True)

    def release(self) -> bool:
        """Give the space up; False where there was none to give."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True


@dataclass(frozen=True)
class Disks:
    """The disks of some folders."""

    places: tuple[Path, ...]

    def full(self) -> Path | None:
        """The first folder whose disk is full, by its bytes or its number of files."""
        return next((place for place in self.places if _is_full(place)), None)

    def check(self) -> None:
        """Raise NightshiftError (``E_CONFIG``) where one is full."""
        if place := self.full():
            raise no_space(place)


def _is_full(place: Path) -> bool:
    try:
        found = os.statvfs(place)
    except OSError:  # without a boundary an agent can have removed it
        return False
    counted = found.f_files > 0  # some file systems have no fixed number
    few_files = counted and found.f_favail < FULL_FILES
    return found.f_bavail * found.f_frsize < FULL_BYTES or few_files


def is_full_disk(error: BaseException) -> bool:
    """True where a full disk is why something failed, git among it."""
    if isinstance(error, GitError):
        return any(words in error.stderr for words in _WORDS)
    return isinstance(error, OSError) and is_disk_full(error)


@contextlib.contextmanager
def told_where_full(*places: Path) -> Iterator[None]:
    """Raises NightshiftError (``E_CONFIG``) where the block finds the disk of a place full."""
    try:
        yield
    except (OSError, GitError) as error:
        if not is_full_disk(error):
            raise
        raise no_space(*places) from None


def no_space(*places: Path) -> NightshiftError:
    """What to do about a full disk: the fullest of these."""
    fullest = min(places, key=lambda place: shutil.disk_usage(place).free)
    return config_error(
        f"no space left on the disk of {fullest}: free some, or put it elsewhere"
        " (TMPDIR for temporary files, the runner's builds_dir for the checkout)"
    )
