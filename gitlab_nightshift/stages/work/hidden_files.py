"""Hides the checkout's secret files: they are removed while an agent works, and put back after it.

Only namespaces could hide a file in a folder to which an agent may write. If this process is killed
meanwhile, the files are restored from their copies or from git's objects.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository.saved_state import SavedCheckout
from gitlab_nightshift.system.openat import (
    RefusedFileError,
    change_owner,
    open_parent,
    open_regular,
    read_chunks,
    replace_file,
    write_all,
)
from gitlab_nightshift.system.signals import defer_signals
from gitlab_nightshift.text.secret_texts import holds_variables, is_installed, is_secret_file

MOST_BYTES, MOST_FILES = 2_000_000, 500
"""Limits for all hidden files together, as they are held in memory."""


@dataclass(frozen=True)
class _HiddenFile:
    """A file that was removed, with all that is needed to create it again."""

    path: str
    data: bytes
    status: os.stat_result


def find_hidden_files(saved: SavedCheckout) -> tuple[str, ...]:
    """``.env`` and similar files, and untracked ones whose names suggest secrets.

    Raises NightshiftError E_POLICY_DENY if they are too many, too large, or could not be restored
    after a kill.
    """
    # A tracked file is in git's objects as well, which an agent may read; and tests may need it.
    secrets = [
        path
        for path, mode in saved.entries.read_modes()
        if stat.S_ISREG(mode)
        and is_secret_file(path)
        and (holds_variables(path) or path not in saved.tracked)
        and not is_installed(path)
    ]
    size = sum(saved.entries[path].size for path in secrets)
    unsaved = [path for path in secrets if path not in saved.blobs and path not in saved.copies]
    if unsaved or size > MOST_BYTES or len(secrets) > MOST_FILES:
        which = unsaved[0] if unsaved else f"{len(secrets)} files of {size} bytes"
        raise NightshiftError(
            Code.POLICY_DENY,
            f"{which}: by the name a secret, and too large or too many to be hidden from the agent:"
            " remove what the job does not need",
        )
    return tuple(sorted(secrets))


@contextlib.contextmanager
def hide_files(root: Path, paths: Sequence[str]) -> Iterator[None]:
    """Remove the files for the block, and put them back after it. No agent's process may be alive
    when the block begins."""
    hidden: list[_HiddenFile] = []
    try:
        for path in paths:
            # A signal between the unlink and the append would lose the file.
            with defer_signals(), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                hidden.append(_remove_file(root, path))
        yield
    finally:
        with defer_signals():
            for file in hidden:
                _put_back(root, file)


def _remove_file(root: Path, path: str) -> _HiddenFile:
    try:
        with open_parent(root, path) as (fd, name):
            with open_regular(name, fd) as file:
                status, data = os.fstat(file), b"".join(read_chunks(file))
            os.unlink(name, dir_fd=fd)
    except RefusedFileError as error:
        raise NightshiftError(Code.POLICY_DENY, f"{path} cannot be hidden: {error}") from None
    return _HiddenFile(path, data, status)


def _put_back(root: Path, file: _HiddenFile) -> None:
    """Put a file back in place of whatever an agent created under its name. Without its folder
    nothing is done: restoring the checkout will create both again."""
    with (
        contextlib.suppress(OSError),
        open_parent(root, file.path) as (fd, name),
        replace_file(name, fd) as new_file,
    ):
        # In this order: a new owner clears setuid bits (chown(2)), and writing changes the times.
        write_all(new_file, file.data)
        change_owner(new_file, (file.status.st_uid, file.status.st_gid))
        os.fchmod(new_file, stat.S_IMODE(file.status.st_mode))
        os.utime(new_file, ns=(file.status.st_atime_ns, file.status.st_mtime_ns))
