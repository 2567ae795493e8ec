"""Disk space reserved for files which must be written even if the disk is full."""

import os
from dataclasses import dataclass
from pathlib import Path

# Enough for the results, and for the end of each log of a run.
RESERVE_BYTES = 8_000_000
FULL_BYTES = 128 * 1024
"""A disk with less free space counts as full."""


@dataclass(frozen=True)
class Reserve:
    """A file of ``size`` bytes that only occupies space, until the space is needed."""

    path: Path
    size: int = RESERVE_BYTES

    def allocate(self) -> None:
        """Occupy the space, unless that would fill the disk."""
        try:
            disk = os.statvfs(self.path.parent)
            # Some space has to be left, or the disk would count as full.
            if disk.f_bavail * disk.f_frsize < self.size + 4 * FULL_BYTES:
                return
            with self.path.open("xb") as file:
                # Not a sparse file: that would occupy nothing (posix_fallocate(3)).
                os.posix_fallocate(file.fileno(), 0, self.size)
        except FileExistsError:
            return
        except OSError:
            self.path.unlink(missing_ok=True)

    def release(self) -> bool:
        """Free the space; False if none was occupied."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True
