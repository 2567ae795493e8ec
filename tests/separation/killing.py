"""SIGKILL of one of a run's processes at a step of it: the patch of a world.

Each process notes its pid in a file, and kills itself where it is told to, so no test has to find
it in time. ``when`` is ``start`` (before its input), ``told`` (it has its input), ``end`` (it has
answered), ``hanging`` (the agent has come to its ``hang``), or ``before`` or ``after`` a function,
named as ``module:name``; one with a third part only where that is in its arguments.
"""

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import Popen
from typing import Any

from gitlab_nightshift.sandbox import privilege_drop, stage_process
from tests.support import stages
from tests.support.plant import plant
from tests.support.trees import wait_for

PROCESSES = {
    "redactor": "run.redactor_process",
    "plan": "run.plan_process",
    "gateway": "gateway.gateway_process",
    "work": "stages.work.work_process",
    "notary": "stages.work.notary_process",
    "publish": "run.publish_process",
    "reader": "repository.bundle_reader",
    "report": "stages.report.report_process",
}


def patch(folder: Path, process: str, when: str) -> str:
    """The patch of a world in a folder; ``supervisor`` is the process that runs the command."""
    call = f"killing.arrange({str(folder)!r}, {process!r}, {when!r})"
    return f"from tests.separation import killing; {call}\n"


def arrange(folder: str, process: str, when: str) -> None:
    """Have the process kill itself at that time."""
    for name, module in PROCESSES.items():
        its = when if name == process else ""
        plant(f"{module}:main", functools.partial(_run, Path(folder), its))
    if process in ("supervisor", "waiting"):
        note(Path(folder))
        _prepare(Path(folder), when)
        _Victim.pid = os.getppid() if process == "waiting" else 0


def note(folder: Path) -> None:
    """This process is one of the run, and so are those that it starts."""
    with contextlib.suppress(PermissionError):  # one that publish has started: see there
        noted = os.open(folder / "pids", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(noted, f"{os.getpid()}\n".encode())
        stages.fork_stage = functools.partial(_fork_noted, noted, stages.real_fork)
        stage_process.start_stage = stages.fork_stage


def _fork_noted(noted: int, fork: Callable[..., Popen[bytes]], *args: Any, **given: Any) -> Any:
    process = fork(*args, **given)
    os.write(noted, f"{process.pid}\n".encode())
    return process


def alive(folder: Path) -> list[str]:
    """The noted processes that are still alive, by their kind."""
    found = []
    for pid in (folder / "pids").read_text().split():
        with contextlib.suppress(OSError):  # it may end while it is read
            if "State:\tZ" not in Path("/proc", pid, "status").read_text():
                found.append(Path("/proc", pid, "cmdline").read_text())
    return found


def _run(
    folder: Path, when: str, main: Callable[[Mapping[str, Any]], int], data: Mapping[str, Any]
) -> int:
    note(folder)
    _prepare(folder, when)
    status = main(data)
    if when == "end":
        _die()
    return status


def _prepare(folder: Path, when: str) -> None:
    kind, _, place = when.partition(" ")
    if kind == "start":
        _die()
    elif kind == "told":
        _wrap("sandbox.supervised_process:read_task", "after", "")
    elif kind == "hanging":
        privilege_drop.is_single_threaded = lambda: True
        threading.Thread(target=_die_with, args=(folder,), daemon=True).start()
    elif place:
        module, name, *only = place.split(":")
        _wrap(f"{module}:{name}", kind, *(only or [""]))


def _die_with(folder: Path) -> None:
    wait_for((folder / "agent/hanging").exists, "the agent to hang", 300)
    _die()


def _wrap(place: str, kind: str, only: str) -> None:
    def dying(honest: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        hit = not only or only in args
        if hit and kind == "before":
            _die()
        made = honest(*args, **kwargs)
        if hit and kind == "after":
            _die()
        return made

    plant(place, dying)


class _Victim:
    """The process to kill where it does not kill itself."""

    pid = 0


def _die() -> None:
    os.kill(_Victim.pid or os.getpid(), signal.SIGKILL)
