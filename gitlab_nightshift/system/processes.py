"""This process and those around it: keeps other processes of its user out, and code that an agent
writes; finds and kills what a program left behind, even daemons outside its process group.
"""

import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.sealed_start import lies_in

PR_SET_DUMPABLE = 4


@functools.cache
def forbid_inspection() -> bool:
    """From now on, no other process without capabilities can read this process's environment or
    memory, or trace it (PR_SET_DUMPABLE, prctl(2)); False if that is not available.

    This process also writes no core dumps. It does not affect programs that it starts.
    """
    return _call_prctl(PR_SET_DUMPABLE, 0)


def _call_prctl(option: int, value: int) -> bool:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    return False


def refuse_installation_in(checkout: Path) -> None:
    """Raise E_CONFIG if this process could import files that an agent writes."""
    for part in (sys.executable, *sys.path):
        if lies_in(Path(part or "."), checkout):
            raise build_config_error(
                f"nightshift runs from {part or 'the current folder'}, in the checkout, where"
                " agents write: install it elsewhere, such as python3 -m venv /opt/nightshift"
            )


# --- descendants ----------------------------------------------------------------------------------


PR_SET_CHILD_SUBREAPER = 36
KILL_WAIT_S, EXIT_WAIT_S = 5.0, 10.0
"""Seconds to wait for killed processes to be gone, and for others to end by themselves."""


@functools.cache
def become_subreaper() -> bool:
    """Make orphaned descendants our children (PR_SET_CHILD_SUBREAPER, prctl(2)); False if that is
    not available."""
    return _call_prctl(PR_SET_CHILD_SUBREAPER, 1)


def list_own_children() -> set[int]:
    """The pids of the children of all threads of this process, including zombies."""
    # By thread: the kernel lists the children of the one that forked (proc(5)).
    files = list(Path("/proc/self/task").glob("*/children"))
    if not files:  # a kernel without CONFIG_PROC_CHILDREN
        return {pid for pid in _list_all_pids() if _read_parent(pid) == os.getpid()}
    pids: set[int] = set()
    for file in files:
        with contextlib.suppress(OSError):
            pids.update(int(pid) for pid in file.read_text().split())
    return pids


def _list_all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _read_parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(read_stat(pid)[1])
    return 0


def read_stat(pid: int) -> list[bytes]:
    """The fields of ``/proc/<pid>/stat`` from the third on: state, parent, … Raises OSError."""
    # The second one, the name, may itself contain spaces and ")" (proc_pid_stat(5)).
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()


def read_parents(uid: int) -> dict[int, int]:
    """The live processes of a user: pid → parent's pid."""
    parents: dict[int, int] = {}
    for pid in _list_all_pids():
        with contextlib.suppress(OSError):
            fields = read_stat(pid)
            # Z is a zombie, X is dead (proc_pid_stat(5)).
            if Path(f"/proc/{pid}").stat().st_uid == uid and fields[0] not in (b"Z", b"X"):
                parents[pid] = int(fields[1])
    return parents


def list_ancestors() -> list[tuple[int, int]]:
    """The pids and start times of this process and all its ancestors: together they identify a
    process."""
    ancestors: list[tuple[int, int]] = []
    pid = os.getpid()
    while pid > 0:
        try:
            fields = read_stat(pid)
        except OSError:
            break
        ancestors.append((pid, int(fields[19])))  # field 22, starttime (proc_pid_stat(5))
        pid = int(fields[1])
    return ancestors


def end_orphans(find_orphans: Callable[[], set[int]]) -> bool:
    """Kill the children that ``find_orphans`` returns until there are none; False after
    ``KILL_WAIT_S`` seconds.

    The descendants of a killed child become ours in the next round.
    """
    deadline = time.monotonic() + KILL_WAIT_S
    while orphans := find_orphans():
        if time.monotonic() >= deadline:
            return False
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        # By pid: waitpid(-1) would take the exit status of a child that somebody else waits for.
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)
    return True


def wait_for_end(find_children: Callable[[], set[int]]) -> None:
    """Wait ``EXIT_WAIT_S`` seconds for the children that ``find_children`` returns to end."""
    deadline = time.monotonic() + EXIT_WAIT_S
    while (children := find_children()) and time.monotonic() < deadline:
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
