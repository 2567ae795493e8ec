"""The checkout's files of secrets, taken away while a model's agent works and put back after it.

Only namespaces can hide a file inside a folder that an agent may write, so the file is removed
instead. After a kill it is restored from its copy or from git's objects.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.policy.secret_names import holds_variables, is_installed, is_secret
from gitlab_nightshift.repository.saved_state import SavedCheckout
from gitlab_nightshift.system.openat import (
    Owner,
    RefusedFileError,
    change_owner,
    open_parent,
    open_regular,
    read_chunks,
    replace_file,
    write_all,
)
from gitlab_nightshift.system.signals import defer_signals

LARGEST, MOST = 2_000_000, 500
"""Bytes of all of them, which are held in memory, and their number."""


@dataclass(frozen=True)
class _HiddenFile:
    path: str
    data: bytes
    mode: int
    owner: Owner
    times_ns: tuple[int, int]


def find_hidden_files(saved: SavedCheckout) -> tuple[str, ...]:
    """``.env`` and similar files, and untracked ones whose names suggest secrets: a tracked one is
    in git's objects as well, and tests may need such a key.

    Raises NightshiftError E_POLICY_DENY if they are too many, or could not be put back.
    """
    found = [
        path
        for path, mode in saved.entries.read_modes()
        if stat.S_ISREG(mode)
        and is_secret(path)
        and (holds_variables(path) or path not in saved.tracked)
        and not is_installed(path)
    ]
    size = sum(saved.entries[path].size for path in found)
    lost = [path for path in found if path not in saved.blobs and path not in saved.copies]
    if lost or size > LARGEST or len(found) > MOST:
        which = lost[0] if lost else f"{len(found)} files of {size} bytes"
        raise NightshiftError(
            Code.POLICY_DENY,
            f"{which}: by the name a secret, and too large or too many to be hidden from the agent:"
            " remove what the job does not need",
        )
    return tuple(sorted(found))


@contextlib.contextmanager
def hide_files(root: Path, paths: Sequence[str]) -> Iterator[None]:
    """Take the files away during the block, before which no agent's process may be alive."""
    hidden: list[_HiddenFile] = []
    try:
        for path in paths:
            # A signal between the unlink and the append would lose the file.
            with defer_signals(), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                hidden.append(_take_away(root, path))
        yield
    finally:
        with defer_signals():
            for file in hidden:
                _put_back(root, file)


def _take_away(root: Path, path: str) -> _HiddenFile:
    try:
        with open_parent(root, path) as (fd, name):
            with open_regular(name, fd) as file:
                status, data = os.fstat(file), b"".join(read_chunks(file))
            os.unlink(name, dir_fd=fd)
    except RefusedFileError as error:
        raise NightshiftError(Code.POLICY_DENY, f"{path} cannot be hidden: {error}") from None
    owner, times = (status.st_uid, status.st_gid), (status.st_atime_ns, status.st_mtime_ns)
    return _HiddenFile(path, data, stat.S_IMODE(status.st_mode), owner, times)


def _put_back(root: Path, file: _HiddenFile) -> None:
    """Replace whatever an agent has put there. If its folder is gone, restoring the checkout
    creates both again."""
    with (
        contextlib.suppress(OSError),
        open_parent(root, file.path) as (fd, name),
        replace_file(name, fd) as made,
    ):
        # In this order: a new owner clears setuid bits (chown(2)), and writing changes the times.
        write_all(made, file.data)
        change_owner(made, file.owner)
        os.fchmod(made, file.mode)
        os.utime(made, ns=file.times_ns)
