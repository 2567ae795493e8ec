"""A delegation seen from another process: its progress, and its cancellation."""

import fcntl
import glob
import json
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.run.supervisor.delegation_folder import LOCK, PREFIX
from gitlab_nightshift.stages.report.event_file import EVENTS
from gitlab_nightshift.stages.report.event_summary import EventSummary, read_summary
from gitlab_nightshift.system.file_names import is_there

RESULT = "result.json"
LARGEST_RESULT = 64 * 1024 * 1024
"""Bytes."""
_FLOCK_FORMAT = "hhqqi0q"
"""``struct flock`` of fcntl(2) on 64-bit Linux: type, whence, (padding), start, length, pid."""


@dataclass(frozen=True)
class DelegationStatus:
    """``alive``: a process holds the run's lock; ``pid`` is that process, None if not visible from
    here. ``phase`` is the latest one, begun at ``since``. ``cost_usd`` is the cost so far, None
    if unknown. ``result`` is None until the run has ended, and forever if it was killed."""

    run_id: str
    folder: str
    alive: bool
    pid: int | None
    phase: str | None
    since: str | None
    cost_usd: float | None
    result: dict[str, Any] | None


def read_status(name: str, caller: Path, output_dir: str | None) -> DelegationStatus:
    """The status of a run by its id or its folder. Raises NightshiftError ``E_CONFIG``."""
    folder = find_run(name, caller, output_dir)
    with _open_lock(folder) as lock:
        pid = None if lock is None else _find_holder(lock)
    summary = EventSummary()
    with suppress(OSError):
        summary = read_summary(folder / EVENTS)
    heard = summary.so_far or summary.beads
    return DelegationStatus(
        run_id=summary.run_id or folder.name.removeprefix(PREFIX),
        folder=str(folder),
        alive=pid is not None,
        pid=pid or None,
        phase=summary.phase,
        since=summary.since,
        cost_usd=summary.usage.cost_usd if heard else None,
        result=_read_result(folder),
    )


def cancel_run(name: str, caller: Path, output_dir: str | None) -> dict[str, Any] | None:
    """Send SIGTERM to a run, and wait until it has cleaned up. Its result, None where it left none.
    Raises NightshiftError ``E_CONFIG``."""
    folder = find_run(name, caller, output_dir)
    with _open_lock(folder) as lock:
        if lock is not None:
            _end_holder(lock)
            fcntl.lockf(lock, fcntl.LOCK_SH)  # blocks until the run has ended
    return _read_result(folder)


def find_run(name: str, caller: Path, output_dir: str | None) -> Path:
    """The folder of a run: below the caller's, or else anywhere in the checkout around it. Of
    several with one id, the latest.

    Raises NightshiftError ``E_CONFIG`` if there is none, or if it belongs to another user.
    """
    wanted = name if name.startswith(PREFIX) else f"{PREFIX}{name}"
    candidates = [caller / name] if "/" in name else _list_folders(caller, output_dir, wanted)
    runs = [each for each in candidates if each.name.startswith(PREFIX) and is_there(each)]
    runs = [each for each in runs if each.is_dir()] or list(_search_checkout(caller, wanted))
    if not runs:
        raise build_config_error(
            f"{name}: no delegation with that id or folder below {caller}, or in the checkout"
            " around it: run this where it was started"
        )
    folder = max(runs, key=lambda each: each.stat().st_ctime_ns).resolve()
    if folder.stat().st_uid != os.geteuid():
        raise build_config_error(f"{folder} belongs to another user")
    return folder


def _list_folders(caller: Path, output_dir: str | None, wanted: str) -> list[Path]:
    parents = [each for each in caller.iterdir() if each.is_dir()]
    parents += [caller / output_dir] if output_dir else []
    exact = [parent / wanted for parent in parents]
    again = (parent.glob(f"{glob.escape(wanted)}-[0-9]*") for parent in parents)
    return [*exact, *(each for some in again for each in some)]


def _search_checkout(caller: Path, wanted: str) -> Iterator[Path]:
    """Search the whole checkout around the folder, except ``.git`` and the folders of runs."""
    top = next((each for each in (caller, *caller.parents) if (each / ".git").exists()), None)
    for folder, inner, _ in os.walk(top) if top else ():
        again = f"{glob.escape(wanted)}-[0-9]*"
        yield from (Path(folder, n) for n in inner if n == wanted or fnmatchcase(n, again))
        inner[:] = [each for each in inner if each != ".git" and not each.startswith(PREFIX)]


# --- the lock -------------------------------------------------------------------------------------


@contextmanager
def _open_lock(folder: Path) -> Iterator[int | None]:
    """The run's lock, None where the run has ended."""
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    with closing(os.fdopen(lock)):
        yield lock


def _find_holder(lock: int) -> int | None:
    """The pid that holds the lock, from the kernel: so never a stale one. 0: the process is in
    another pid namespace."""
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
    with suppress(ProcessLookupError):
        # The pid may have been reused since: a pidfd pins the process (pidfd_open(2), Linux 5.3),
        # and it still holds the lock, so the signal reaches the right one.
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
