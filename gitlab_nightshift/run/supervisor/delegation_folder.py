"""The output folder of a delegation, below its caller's folder: locked as long as it runs.

Events are written as they happen, everything else at the end, once no agent is left.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.stages.report.event_file import EVENTS
from gitlab_nightshift.stages.report.result_files import ignore_itself
from gitlab_nightshift.system.openat import remove_path

PREFIX = "delegate-"
LOCK = "lock"
DEFAULT_PARENT = "nightshift"
"""The default of ``output_dir``, until the repository's settings have been read."""


class DelegationFolder:
    """``path`` is its present place; ``descriptor`` stays valid when it is moved."""

    def __init__(self, caller: Path, output_dir: str, run_id: str) -> None:
        self._caller, self._run_id = caller, run_id
        try:
            self.path = self._make(caller / output_dir)
        except OSError as error:
            text = f"{caller} cannot be written ({error.strerror}): artifacts go below it"
            raise build_config_error(text) from None
        ignore_itself(self.path)
        self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._lock = os.open(LOCK, flags, 0o600, dir_fd=self.descriptor)
        # fcntl, not flock: F_GETLK names the process that holds it (fcntl(2), advisory locking).
        fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(os.open(EVENTS, flags, 0o666, dir_fd=self.descriptor))

    def move(self, output_dir: str) -> None:
        """Move it below ``output_dir``. Raises NightshiftError ``E_CONFIG``."""
        old, parent = self.path, self._caller / output_dir
        if old.parent == parent:
            return
        try:
            self.path = self._make(parent)
            old.rename(self.path)
        except OSError as error:
            raise build_config_error(f"output_dir: {parent}: {error.strerror}") from None
        _remove_if_empty(old.parent)

    def remove(self) -> None:
        """Remove it: there is nothing to keep, or agents work in a folder that contains it."""
        remove_path(self.path)
        _remove_if_empty(self.path.parent)

    def put(self, results: Path) -> None:
        """Replace it by the results. Raises OSError."""
        new = self._make(self.path.parent)
        ignore_itself(new)
        shutil.copytree(results, new, symlinks=True, dirs_exist_ok=True)
        if new != self.path:  # equal after remove(), which frees the name
            remove_path(self.path)
            new.rename(self.path)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)
        os.close(self.descriptor)

    def _make(self, parent: Path) -> Path:
        names = (f"{PREFIX}{self._run_id}{end}" for end in ("", *(f"-{n}" for n in range(2, 1000))))
        for path in (parent / name for name in names):
            with contextlib.suppress(FileExistsError):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.mkdir()
                return path
        raise FileExistsError(None, "too many output folders of this run")


@contextlib.contextmanager
def open_delegation_folder(
    caller: Path, output_dir: str | None, run_id: str
) -> Iterator[DelegationFolder]:
    """A new folder below the caller's. ``output_dir`` comes from the caller's environment.

    Raises NightshiftError ``E_CONFIG``.
    """
    usable = output_dir and not set(Path(output_dir).parts) & {"/", ".."}
    folder = DelegationFolder(
        caller, output_dir if output_dir and usable else DEFAULT_PARENT, run_id
    )
    with contextlib.closing(folder):
        yield folder


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
