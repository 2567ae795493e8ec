"""A delegation seen from another process: how far it is, and its end on request."""

import fcntl
import glob
import json
import os
import signal
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.run.supervisor.delegation_folder import LOCK, PREFIX
from gitlab_nightshift.stages.report.event_file import EVENTS, MOST_BYTES
from gitlab_nightshift.system.file_names import is_there

RESULT = "result.json"
LARGEST_RESULT = 64 * 1024 * 1024
"""Bytes."""
_LOCK_FORM = "hhqqi0q"
"""A ``struct flock``: type, whence, start, length, pid."""


@dataclass(frozen=True)
class DelegationStatus:
    """``pid`` is the process that holds the run's lock, ``alive`` says whether there is one;
    ``phase`` is the last that began, at ``since``. ``cost_usd`` is that known so far, None for an
    unknown one; ``result`` is there once it has ended, but for one that was killed."""

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
    known = _summarize_events(_read_events(folder))
    return DelegationStatus(
        run_id=known.get("run_id") or folder.name.removeprefix(PREFIX),
        folder=str(folder),
        alive=pid is not None,
        pid=pid or None,
        phase=known.get("phase"),
        since=known.get("since"),
        cost_usd=known.get("cost_usd"),
        result=_read_result(folder),
    )


def cancel_run(name: str, caller: Path, output_dir: str | None) -> dict[str, Any] | None:
    """End a run as SIGTERM does, and wait until it has put back what it has to. Its result, None
    where it left none. Raises NightshiftError ``E_CONFIG``."""
    folder = find_run(name, caller, output_dir)
    with _open_lock(folder) as lock:
        if lock is not None:
            _end_holder(lock)
            fcntl.lockf(lock, fcntl.LOCK_SH)  # until it has ended
    return _read_result(folder)


def find_run(name: str, caller: Path, output_dir: str | None) -> Path:
    """The folder of a run, below the caller's or else anywhere in the checkout around that: of
    several with one id the one that began last.

    Raises NightshiftError ``E_CONFIG`` where there is none, or it is another user's.
    """
    wanted = name if name.startswith(PREFIX) else f"{PREFIX}{name}"
    found = [caller / name] if "/" in name else _list_folders(caller, output_dir, wanted)
    known = [each for each in found if each.name.startswith(PREFIX) and is_there(each)]
    known = [each for each in known if each.is_dir()]
    known = known or list(_search_checkout(caller, wanted))
    if not known:
        raise build_config_error(
            f"{name}: no delegation of that id or folder is below {caller}, or in the checkout"
            " around it: go where it was called"
        )
    folder = max(known, key=lambda each: each.stat().st_ctime_ns).resolve()
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
    """Everywhere in the checkout around the folder: not in repositories' own files, nor in runs."""
    top = next((each for each in (caller, *caller.parents) if (each / ".git").exists()), None)
    for folder, inner, _ in os.walk(top) if top else ():
        again = f"{glob.escape(wanted)}-[0-9]*"
        yield from (Path(folder, n) for n in inner if n == wanted or fnmatchcase(n, again))
        inner[:] = [each for each in inner if each != ".git" and not each.startswith(PREFIX)]


# --- who runs it ----------------------------------------------------------------------------------


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
    """The pid that holds the lock, as the kernel says: no number of an earlier process. 0 is one
    that cannot be seen from here."""
    asked = struct.pack(_LOCK_FORM, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, *_, pid = struct.unpack(_LOCK_FORM, fcntl.fcntl(lock, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else pid


def _end_holder(lock: int) -> None:
    """Send SIGTERM to the process that holds the lock, through a descriptor that was its before the
    kernel named it once more."""
    pid = _find_holder(lock)
    if pid is None:
        return
    if not pid:
        raise build_config_error("it runs in another container: cancel it there")
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            if _find_holder(lock) == pid:
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)


# --- what it has left -----------------------------------------------------------------------------


def _read_result(folder: Path) -> dict[str, Any] | None:
    try:
        with (folder / RESULT).open("rb") as file:
            result = json.loads(file.read(LARGEST_RESULT))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None


def _read_events(folder: Path) -> Iterator[Mapping[str, Any]]:
    with suppress(OSError), (folder / EVENTS).open("rb") as file:
        for line in file.read(2 * MOST_BYTES).splitlines():
            with suppress(ValueError):  # the last one may be half written
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event


def _summarize_events(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    ended: float | None = 0.0
    for event in events:
        known["run_id"] = event.get("run_id")
        if event.get("event") == "phase_start":
            known |= {"phase": event.get("phase"), "since": event.get("time")}
        elif event.get("event") == "progress":
            known["cost_usd"] = event.get("cost_usd")
        elif event.get("event") == "bead_ended":
            cost = event["result"]["usage"]["cost_usd"]
            ended = None if ended is None or cost is None else ended + cost
            known["cost_usd"] = ended
    return known
