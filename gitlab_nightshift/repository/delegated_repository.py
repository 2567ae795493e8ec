"""The repository of a delegation: its location, its lock, and its JSON form for other processes.

Runs that only read the checkout share its state folder: the first one makes it, the last one
removes it. Any other kind of run needs the folder for itself.
"""

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.repository import state_folder
from gitlab_nightshift.repository.git import (
    Git,
    RepositoryPaths,
    build_isolated_git,
    with_machine_config,
)
from gitlab_nightshift.repository.state_folder import (
    LOCK,
    SHARED,
    LockedStateFolder,
    build_another_night_error,
    find_state_folder,
    hold_state_folder,
    read_note,
)
from gitlab_nightshift.system.signals import defer_signals

MODES_FILE = "modes.json"
"""The file with the modes of what ``restrict_access`` closed. They are restored by the last run or,
after a kill, by the next start."""
_TRIES, _PAUSE_S = 600, 0.05
"""Attempts, and seconds between them, while another run makes or removes the folder."""


def is_checkout_shared(checkout: Path, temporary_folder: Path) -> bool:
    """True if the checkout's state folder is a shared one, even if left by a killed run."""
    folder = find_state_folder(checkout, temporary_folder)
    return folder is not None and (folder / SHARED).exists()


@contextlib.contextmanager
def share_state_folder(checkout: Path, temporary_folder: Path) -> Iterator[LockedStateFolder]:
    """Hold the state folder together with other runs. Raises what ``hold_state_folder`` raises."""
    held = _join_or_make(checkout, temporary_folder)
    try:
        yield held
    finally:
        with defer_signals():
            _leave(held)


@contextlib.contextmanager
def lock_for_leaving(folder: Path) -> Iterator[None]:
    """During the block, no other run leaves the folder or changes ``MODES_FILE``; one may join."""
    with (folder / SHARED).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def restrict_access(folder: Path, paths: Iterable[Path]) -> None:
    """Remove other users' rights to these files and folders until the last run has ended: an agent
    may run as another user. Skips missing ones."""
    modes_file = folder / MODES_FILE
    with lock_for_leaving(folder), defer_signals():
        if modes_file.exists():
            return
        modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in paths if path.exists()}
        new_file = modes_file.with_suffix(".new")
        new_file.write_text(json.dumps(modes))
        new_file.rename(modes_file)  # before the first chmod: a kill must not lose the modes
        for name, mode in modes.items():
            os.chmod(name, mode & stat.S_IRWXU)  # noqa: PTH101 - of a name


def restore_modes(folder: Path) -> None:
    """Undo ``restrict_access``, when no run holds the folder."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        for name, mode in json.loads((folder / MODES_FILE).read_text()).items():
            with contextlib.suppress(FileNotFoundError):
                os.chmod(name, mode)  # noqa: PTH101


def _join_or_make(checkout: Path, temporary_folder: Path) -> LockedStateFolder:
    for _ in range(_TRIES):
        if joined := _join(checkout, temporary_folder):
            return joined
        try:
            return hold_state_folder(checkout, temporary_folder, shared=True)
        except NightshiftError:
            if not is_checkout_shared(checkout, temporary_folder):
                raise
        time.sleep(_PAUSE_S)
    folder = find_state_folder(checkout, temporary_folder)
    raise build_another_night_error(checkout, read_note(folder) if folder else None)


def _join(checkout: Path, temporary_folder: Path) -> LockedStateFolder | None:
    folder = find_state_folder(checkout, temporary_folder)
    if folder is None or not (folder / SHARED).exists():
        return None
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # If they differ, the last run has removed this folder, and a later run has made another.
        if os.path.samestat(os.fstat(lock), (folder / LOCK).stat()):
            return LockedStateFolder(folder, lock)
    except OSError:  # the last run is about to remove the folder
        pass
    os.close(lock)
    return None


def _leave(held: LockedStateFolder) -> None:
    with lock_for_leaving(held.folder):
        try:
            fcntl.flock(held.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another run still shares it: this is not the last one
            os.close(held.lock)
            held.lock = -1
            return
        restore_modes(held.folder)
        held.close()


# --- the source of a delegation -------------------------------------------------------------------


@dataclass(frozen=True)
class DelegationSource:
    """The checkout from which a delegation starts.

    ``git`` is isolated, ``machine_git`` has this machine's filters and identity. ``head`` is the
    checked-out commit, ``spare`` the folder for temporary files. ``fetched``: the checkout is a
    private clone that this program made of a URL, and ``head`` the requested commit.
    """

    top: Path
    paths: RepositoryPaths
    git: Git
    machine_git: Git
    head: str
    spare: Path
    fetched: bool = False

    @property
    def secrets(self) -> tuple[Path, ...]:
        """Files and folders with credentials, which no agent may read: the repository's, and the
        folder in which a runner keeps those of a job."""
        return (*self.paths.list_secrets(), self.top.with_name(f"{self.top.name}.tmp"))


@contextlib.contextmanager
def share_checkout(
    source: DelegationSource, run_id: str, secrets: Iterable[Path]
) -> Iterator[None]:
    """During the block, lock the checkout against runs that change it, and remove other users'
    rights to ``secrets``. Raises what ``hold_state_folder`` raises."""
    with share_state_folder(source.top, source.spare) as held:
        if not (held.folder / state_folder.NOTE).exists():
            state_folder.write_note(held, source.top, run_id, source.head, source.paths)
        restrict_access(held.folder, secrets)
        yield


@contextlib.contextmanager
def lock_checkout(source: DelegationSource, run_id: str) -> Iterator[None]:
    """Lock the checkout against other runs during the block. Raises as ``hold_state_folder``."""
    held = hold_state_folder(source.top, source.spare)
    try:
        state_folder.write_note(held, source.top, run_id, source.head, source.paths)
        yield
    finally:
        with defer_signals():
            held.close()


@dataclass(frozen=True)
class SourceRecord:
    """A source as JSON for another process; ``search_path`` is for git, ``home`` the user's."""

    top: Path
    paths: RepositoryPaths
    head: str
    spare: Path
    fetched: bool
    search_path: str
    home: Path


def build_source_record(source: DelegationSource, home: str) -> SourceRecord:
    """The record of a source; ``home`` is the user's home folder."""
    return SourceRecord(
        source.top,
        source.paths,
        source.head,
        source.spare,
        source.fetched,
        search_path=source.git.env["PATH"],
        home=Path(home),
    )


def open_source_record(data: Any, private: Path) -> DelegationSource:
    """The source in the JSON of a ``SourceRecord``; ``private`` is for git's settings."""
    record: SourceRecord = make_record(SourceRecord, data)
    return DelegationSource(
        top=record.top,
        paths=record.paths,
        git=build_isolated_git(private / "git", record.search_path),
        machine_git=with_machine_config(private / "machine-git", record.search_path, record.home),
        head=record.head,
        spare=record.spare,
        fetched=record.fetched,
    )
