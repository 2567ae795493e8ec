"""Space that is set aside for what has to be written when a disk is full."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

RESERVE_BYTES = 8_000_000
FULL_BYTES = 128 * 1024
"""A disk with less is full."""


@dataclass(frozen=True)
class Reserve:
    """A file that only takes up space, so that there is some for what has to be written."""

    path: Path
    size: int = RESERVE_BYTES

    def hold(self) -> None:
        """Take the space, where there is enough of it: the disk is not full then."""
        try:
            if shutil.disk_usage(self.path.parent).free < self.size + 4 * FULL_BYTES:
                return
            with self.path.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, self.size)
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
