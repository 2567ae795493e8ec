"""The processes of a tree: who descends from whom, from ``/proc``."""
# ruff: noqa: PTH123, PTH208

import os

DEEPEST = 10_000


class Process:
    """What ``/proc/<pid>/stat`` says. Raises OSError where there is no such process."""

    def __init__(self, pid: int) -> None:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        self.pid, self.parent, self.group = pid, int(fields[1]), int(fields[2])


def list_processes() -> list[Process]:
    """All that are visible here."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append(Process(int(name)))
            except OSError:
                continue
    return found


def descends(pid: int, ancestor: int) -> bool:
    """True where ``pid`` is a descendant of ``ancestor``."""
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
    """This process's children, those not yet reaped too."""
    me = os.getpid()
    try:
        found: list[int] = []
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as listed:
                found += [int(pid) for pid in listed.read().split()]
        return found
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [process.pid for process in list_processes() if process.parent == me]
