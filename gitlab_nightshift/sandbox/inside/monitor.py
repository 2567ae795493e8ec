"""The monitor: the parent of a confined process, responsible for the whole tree below it.

It answers the calls that the filter hands over, kills every descendant when the program ends or the
night shift dies, and exits as the program did. It runs as the agents' user, without any capability.
"""
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import _socket
import os
import select

from .attributes import AttributeHandler
from .egress_filter import EgressHandler
from .notification import SystemCall, handle_next
from .privileges import drop_capabilities
from .syscalls import NUMBERS, PR_SET_DUMPABLE, PR_SET_PDEATHSIG, SIGNALS, call_prctl, signals

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


EPERM = 1
MOST_REFUSALS = 40
"""Refusals to report: the first ones say enough, and so many fit into the status pipe."""
IGNORED = (signals.SIGINT, signals.SIGTERM, signals.SIGHUP, signals.SIGQUIT)
# Sent by the kernel. Not SIGKILL: the monitor still has to kill the tree.
PARENT_DIED = signals.SIGUSR2
KILL_ROUNDS = 2000
"""At most two seconds: each round ends with a pause of a millisecond."""


def ignore_signals() -> None:
    """Ignore signals that are meant for the program, and detach from its standard streams."""
    for number in IGNORED:
        signals.signal(number, signals.SIG_IGN)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def drop_privileges(*, has_own_user: bool) -> None:
    """Drop capabilities, and prepare for the parent's death. Call it after the change of user,
    which resets both prctl settings (prctl(2)). ``has_own_user``: all processes of this user belong
    to the tree, as in the uid tier. Raises OSError."""
    drop_capabilities()
    call_prctl(PR_SET_DUMPABLE, 0)
    call_prctl(PR_SET_PDEATHSIG, PARENT_DIED)
    _state["has_own_user"] = has_own_user


_state = {"has_own_user": False, "parent_died": False}


class Refusals:
    """Reports refusals to the parent: each once, the first ``MOST_REFUSALS``."""

    def __init__(self, status: int) -> None:
        self._status, self._reported = status, set[str]()
        os.set_blocking(status, False)  # a full pipe must not stop the tree's calls

    def __call__(self, action: str) -> None:
        """Report the refusal of an action."""
        if action in self._reported or len(self._reported) >= MOST_REFUSALS:
            return
        self._reported.add(action)
        line = f"refused {action}"[:300].encode("utf-8", "backslashreplace").replace(b"\n", b" ")
        try:
            os.write(self._status, line + b"\n")
        except OSError:
            return


def watch(
    program: int,
    channel: _socket.socket | None,
    status: int,
    ports: list[int],
    folders: list[str],
) -> NoReturn:
    """Serve the tree until the process ``program`` ends, kill what is left, and exit as it did."""
    waker = _wake_on_signals()
    refuse = Refusals(status)
    handlers: dict[int, Callable[[SystemCall], None]] = {}
    listener = _receive_listener(channel) if channel else None
    if listener is not None:
        handlers |= EgressHandler(ports, folders, refuse).build_handlers()
        handlers |= SignalHandler(refuse).build_handlers()
        handlers |= AttributeHandler(folders, refuse).build_handlers()
    wait_status = _run_loop(program, listener, handlers, waker)
    _kill_descendants()
    _exit_like(wait_status)


def _receive_listener(channel: _socket.socket) -> int | None:
    _, ancillary, _, _ = channel.recvmsg(1, 64)
    channel.close()
    for _, _, data in ancillary:
        fd = int.from_bytes(data[:4], "little")
        os.set_inheritable(fd, False)
        return fd
    return None  # the child failed earlier and has reported why


def _wake_on_signals() -> int:
    # A signal between the loop's check and its poll would be missed: the pipe wakes the poll.
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signals.set_wakeup_fd(writing, warn_on_full_buffer=False)
    # Only signals with a handler in Python are written to it (signal.set_wakeup_fd).
    signals.signal(signals.SIGCHLD, lambda *_: None)
    signals.signal(PARENT_DIED, lambda *_: _state.update(parent_died=True))
    return reading


def _run_loop(
    program: int,
    listener: int | None,
    handlers: dict[int, Callable[[SystemCall], None]],
    waker: int,
) -> int:
    """Serve calls until the program ends; returns its wait status, that of SIGKILL if the parent
    died."""
    poll = select.poll()
    poll.register(waker, select.POLLIN)
    if listener is not None:
        poll.register(listener, select.POLLIN)
    while True:
        wait_status = _reap_children(program)
        if wait_status is not None:
            return wait_status
        if _state["parent_died"]:
            return int(signals.SIGKILL)
        for fd, event in poll.poll():
            if fd == waker:
                os.read(waker, 512)
            elif event & select.POLLIN:
                handle_next(fd, handlers)
            else:
                poll.unregister(fd)


def _reap_children(program: int) -> int | None:
    """Reap the children that have ended; returns the program's wait status if it is one of them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return int(signals.SIGKILL)
        if pid == program:
            return status
        if pid == 0:
            return None


def _kill_descendants() -> None:
    """Kill every descendant: children of a killed process become ours (subreaper)."""
    for _ in range(KILL_ROUNDS):
        children = list_children()
        if not children:
            return
        if _state["has_own_user"]:
            _kill(-1)  # at once: one by one, a process that keeps forking could outrun us
        for pid in children:
            _kill(pid)
        _reap_children(-1)  # all of them: no process has this pid
        select.select([], [], [], 0.001)  # a pause: the module time is not loaded


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signals.SIGKILL)
    except OSError:
        return


def _exit_like(wait_status: int) -> NoReturn:
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        if number != signals.SIGKILL:  # its action cannot be set (signal(7))
            signals.signal(number, signals.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(wait_status))


# --- signals --------------------------------------------------------------------------------------


class SignalHandler:
    """Lets a signal through if every receiver is a descendant of this process. Used where Landlock
    cannot judge signals (ABI below 6, Linux below 6.12).

    All arguments are numbers, so nothing can change between the check and the call.
    """

    def __init__(self, refuse: Callable[[str], None]) -> None:
        self._refuse, self._monitor = refuse, os.getpid()

    def build_handlers(self) -> dict[int, Callable[[SystemCall], None]]:
        """The handler of each system call number."""
        return {NUMBERS[name]: self._handle_signal for name in SIGNALS}

    def _handle_signal(self, call: SystemCall) -> None:
        target = call.read_int_argument(0)
        receivers = [target] if target > 0 else self._list_group(call, -target)
        if all(descends(pid, self._monitor) for pid in receivers):
            call.let_through()
            return
        self._refuse(f"signal to process {target}")
        call.answer(EPERM)

    def _list_group(self, call: SystemCall, group: int) -> list[int]:
        """The members of a process group, without this process; 0 is the caller's own group."""
        # kill(-1) means everybody (kill(2)): our parent is one of those that are no descendants.
        if group == 1:
            return [os.getppid()]
        group = group or Process(call.thread).group
        pids = [process.pid for process in list_processes() if process.group == group]
        return [pid for pid in pids if pid != self._monitor]


# --- the process tree, as /proc shows it ----------------------------------------------------------


MOST_ANCESTORS = 10_000
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
    for _ in range(MOST_ANCESTORS):
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
