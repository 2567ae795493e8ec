"""The process tree, as ``/proc`` shows it."""
# ruff: noqa: PTH123, PTH208

import os

DEEPEST = 10_000
"""Ancestors to follow: while we read, pids may be reused so that they form a circle."""


class Process:
    """A process as in ``/proc/<pid>/stat``. Raises OSError if there is none."""

    def __init__(self, pid: int) -> None:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The name in field 2 may itself contain spaces and ")" (proc_pid_stat(5)).
            fields = stat.read().rpartition(b")")[2].split()
        self.pid, self.parent, self.group = pid, int(fields[1]), int(fields[2])


def list_processes() -> list[Process]:
    """All processes that are visible here."""
    processes = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                processes.append(Process(int(name)))
            except OSError:
                continue  # it has ended since the listing
    return processes


def descends(pid: int, ancestor: int) -> bool:
    """True if ``pid`` is a descendant of ``ancestor``."""
    for _ in range(DEEPEST):
        try:
            pid = Process(pid).parent
        except OSError:
            return False
        if pid == ancestor:
            return True
        if pid <= 1:
            return False
    return False


def list_children() -> list[int]:
    """This process's children, including zombies."""
    me = os.getpid()
    try:
        children: list[int] = []
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as listed:
                children += [int(pid) for pid in listed.read().split()]
        return children
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [process.pid for process in list_processes() if process.parent == me]
