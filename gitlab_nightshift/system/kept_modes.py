"""Saves the modes of folders that the supervisor has to enter, before work begins."""

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class KeptModes:
    """Modes by path, the outer folders first."""

    modes: Mapping[Path, int]

    def restore(self) -> None:
        """Give them back. Landlock does not see it where work changes one without a broker
        (``sandbox/broker_client.py``), as the same user: one folder that nobody can enter would
        keep the real ``.git`` out of its place."""
        for path, mode in self.modes.items():
            with contextlib.suppress(OSError):
                if stat.S_IMODE(path.lstat().st_mode) != mode:
                    os.chmod(path, mode)  # noqa: PTH101 - of a folder that cannot be replaced


def keep_modes(paths: Iterable[Path]) -> KeptModes:
    """The modes of the folders above these that this user owns."""
    modes = dict[Path, int]()
    for folder in (folder for path in paths for folder in reversed(path.parents)):
        status = folder.stat()
        if status.st_uid == os.geteuid():
            modes[folder] = stat.S_IMODE(status.st_mode)
    return KeptModes(modes)
