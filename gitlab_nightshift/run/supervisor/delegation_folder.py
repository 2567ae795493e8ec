"""The output folder of a delegation, below its caller's folder, locked while the delegation runs.
Another process can read the delegation's status there, and finds the process to cancel by the lock.

Events are written as they happen, everything else at the end, once no agent is left.
"""

import contextlib
import fcntl
import glob
import json
import os
import shutil
import signal
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.stages.report.event_file import EVENTS, EventSummary, read_summary
from gitlab_nightshift.stages.report.result_files import ignore_itself
from gitlab_nightshift.system.file_names import path_exists
from gitlab_nightshift.system.openat import remove_path

PREFIX, LOCK = "delegate-", "lock"
"""The beginning of the folder's name, and the file in it that is locked."""
DEFAULT_PARENT = "nightshift"
"""The default of ``output_dir``, until the repository's settings have been read."""


class DelegationFolder:
    """A delegation's output folder. ``path`` changes when the folder is moved, ``descriptor`` stays
    valid."""

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
        """Move the folder below ``output_dir``. Raises NightshiftError ``E_CONFIG``."""
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
        """Remove the folder. ``place_results`` creates it again if needed."""
        remove_path(self.path)
        _remove_if_empty(self.path.parent)

    def place_results(self, results: Path) -> None:
        """Replace the folder by the results. Raises OSError."""
        new_folder = self._make(self.path.parent)
        ignore_itself(new_folder)
        # Copying may fail: the old folder is removed only after that.
        shutil.copytree(results, new_folder, symlinks=True, dirs_exist_ok=True)
        if new_folder != self.path:  # equal after remove()
            remove_path(self.path)
            new_folder.rename(self.path)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)
        os.close(self.descriptor)

    def _make(self, parent: Path) -> Path:
        suffixes = ("", *(f"-{number}" for number in range(2, 1000)))
        names = (f"{PREFIX}{self._run_id}{suffix}" for suffix in suffixes)
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
    """A new folder below the caller's. ``output_dir`` comes from the caller's environment; an
    absolute one, or one with "..", is replaced by the default.

    Raises NightshiftError ``E_CONFIG``.
    """
    if not output_dir or set(Path(output_dir).parts) & {"/", ".."}:
        output_dir = DEFAULT_PARENT
    with contextlib.closing(DelegationFolder(caller, output_dir, run_id)) as folder:
        yield folder


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


# --- seen from another process ------------------------------------------------------------------


RESULT = "result.json"
LARGEST_RESULT = 64 * 1024 * 1024
"""Bytes."""
_FLOCK_FORMAT = "hhqqi0q"
"""``struct flock`` of fcntl(2) on 64-bit Linux: type, whence, (padding), start, length, pid.
Needed as ``fcntl.lockf`` cannot return who holds a lock."""


@dataclass(frozen=True)
class DelegationStatus:
    """A delegation's status. ``alive``: a process holds its lock; ``pid`` is that process, None if
    it is in another container. ``phase`` is the latest one, begun at ``since``. ``cost_usd`` is the
    cost so far, None if unknown. ``result`` is None until the delegation has ended, and also after
    that if it was killed."""

    run_id: str
    folder: str
    alive: bool
    pid: int | None
    phase: str | None
    since: str | None
    cost_usd: float | None
    result: dict[str, Any] | None


def read_status(name: str, caller: Path, output_dir: str | None) -> DelegationStatus:
    """The status of a delegation by its id or its folder. Raises NightshiftError ``E_CONFIG``."""
    folder = find_delegation(name, caller, output_dir)
    with _open_lock(folder) as lock:
        pid = None if lock is None else _find_holder(lock)
    summary = EventSummary()
    with contextlib.suppress(OSError):
        summary = read_summary(folder / EVENTS)
    is_cost_known = summary.running_usage or summary.beads  # without any, the sum would be 0
    return DelegationStatus(
        run_id=summary.run_id or folder.name.removeprefix(PREFIX),
        folder=str(folder),
        alive=pid is not None,
        pid=pid or None,
        phase=summary.phase,
        since=summary.since,
        cost_usd=summary.usage.cost_usd if is_cost_known else None,
        result=_read_result(folder),
    )


def cancel_delegation(name: str, caller: Path, output_dir: str | None) -> dict[str, Any] | None:
    """Send SIGTERM to a delegation, and wait until it has cleaned up. Returns its result, None if
    it left none. Raises NightshiftError ``E_CONFIG``."""
    folder = find_delegation(name, caller, output_dir)
    with _open_lock(folder) as lock:
        if lock is not None:
            _end_holder(lock)
            fcntl.lockf(lock, fcntl.LOCK_SH)  # waits until the exclusive lock is released
    return _read_result(folder)


def find_delegation(name: str, caller: Path, output_dir: str | None) -> Path:
    """The folder of a delegation by its id or path: below the caller's, or else anywhere in the
    checkout around that. Of several with one id, the latest.

    Raises NightshiftError ``E_CONFIG`` if there is none, or if it belongs to another user.
    """
    base_name = name if name.startswith(PREFIX) else f"{PREFIX}{name}"
    paths = [caller / name] if "/" in name else _list_paths(caller, output_dir, base_name)
    existing = [path for path in paths if path.name.startswith(PREFIX) and path_exists(path)]
    folders = [path for path in existing if path.is_dir()]
    folders = folders or list(_search_checkout(caller, base_name))
    if not folders:
        raise build_config_error(
            f"{name}: no delegation with that id or folder below {caller}, or in the checkout"
            " around it: run this where it was started"
        )
    folder = max(folders, key=lambda path: path.stat().st_ctime_ns).resolve()
    if folder.stat().st_uid != os.geteuid():
        raise build_config_error(f"{folder} belongs to another user")
    return folder


def _list_paths(caller: Path, output_dir: str | None, name: str) -> list[Path]:
    """Where a delegation's folder may be: in each folder of the caller's, or in ``output_dir``."""
    parents = [path for path in caller.iterdir() if path.is_dir()]
    parents += [caller / output_dir] if output_dir else []
    pattern = _build_repeated_pattern(name)
    repeated = [path for parent in parents for path in parent.glob(pattern)]
    return [*(parent / name for parent in parents), *repeated]


def _build_repeated_pattern(name: str) -> str:
    """A pattern for the folders of further delegations with the same id."""
    return f"{glob.escape(name)}-[0-9]*"


def _search_checkout(caller: Path, name: str) -> Iterator[Path]:
    """Search the whole checkout around the caller's folder, except ``.git`` and the contents of
    delegations' folders."""
    top = next((path for path in (caller, *caller.parents) if (path / ".git").exists()), None)
    pattern = _build_repeated_pattern(name)
    for parent, folders, _ in os.walk(top) if top else ():
        matching = (each for each in folders if each == name or fnmatchcase(each, pattern))
        yield from (Path(parent, each) for each in matching)
        # os.walk enters only the folders that are left in this list.
        folders[:] = [each for each in folders if each != ".git" and not each.startswith(PREFIX)]


# --- the lock -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_lock(folder: Path) -> Iterator[int | None]:
    """The delegation's lock; None once the results, which have no lock, replaced the folder."""
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    with contextlib.closing(os.fdopen(lock)):
        yield lock


def _find_holder(lock: int) -> int | None:
    """The pid of the process that holds the lock. 0 if that is in another PID namespace, None if
    nobody holds it."""
    # F_GETLK returns the lock that prevents a write lock on the whole file (fcntl(2)).
    query = struct.pack(_FLOCK_FORMAT, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, *_, pid = struct.unpack(_FLOCK_FORMAT, fcntl.fcntl(lock, fcntl.F_GETLK, query))
    return None if kind == fcntl.F_UNLCK else pid


def _end_holder(lock: int) -> None:
    """Send SIGTERM to the process that holds the lock."""
    pid = _find_holder(lock)
    if pid is None:
        return
    if not pid:
        raise build_config_error("the run is in another container: cancel it there")
    with contextlib.suppress(ProcessLookupError):
        # The pid may have been reused. A pidfd stays with one process (pidfd_open(2), Linux 5.3):
        # if that still holds the lock, it is the right one.
        process = os.pidfd_open(pid)
        try:
            if _find_holder(lock) == pid:
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)


# --- the result -----------------------------------------------------------------------------------


def _read_result(folder: Path) -> dict[str, Any] | None:
    try:
        with (folder / RESULT).open("rb") as file:
            result = json.loads(file.read(LARGEST_RESULT))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None
