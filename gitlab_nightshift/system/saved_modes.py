"""Saves the modes of folders that the supervisor has to enter, before work begins."""

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SavedModes:
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


def save_modes(paths: Iterable[Path]) -> SavedModes:
    """The modes of the folders above these paths that this user owns."""
    modes = dict[Path, int]()
    for folder in (folder for path in paths for folder in reversed(path.parents)):
        status = folder.stat()
        if status.st_uid == os.geteuid():
            modes[folder] = stat.S_IMODE(status.st_mode)
    return SavedModes(modes)
