"""The launcher's work: read the spec, drop all rights, become the program.

It never runs the program with a weaker boundary: a step that fails is reported, and ends the
process with its own exit status. In a network namespace it leaves a forwarder behind, a process
with no more rights than the agent, which connects each loopback port to one of our UNIX sockets.
"""

from __future__ import annotations

import _socket
import _thread
import os
import stat

from .json_data import parse_json, read_all
from .landlock import CAN_SCOPE, CAN_TRUNCATE, LandlockPaths, restrict
from .privileges import (
    become_user,
    disable_core_dumps,
    drop_capabilities,
    forbid_new_privileges,
    join_own_keyring,
    lock_root_out,
)
from .seccomp import FilterOptions, build_filter, install
from .syscalls import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, PR_SET_SUBREAPER, call_prctl, signals

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from types import TracebackType
    from typing import NoReturn

_MOST_DESCRIPTORS = 1 << 20
"""Above any descriptor of this process: the default of the sysctl fs.nr_open (proc_sys_fs(5))."""
STATUSES = {
    "spec": 101,
    "descriptors": 102,
    "session": 103,
    "limits": 104,
    "monitor": 105,
    "user": 106,
    "privileges": 107,
    "parent": 108,
    "keyring": 109,
    "folder": 110,
    "files": 111,
    "calls": 112,
    "gates": 113,
    "program": 127,
}
"""Exit status of each failed step: higher than those of most programs, and 127 as from a shell."""


class LaunchSpec:
    """The request of the parent, as ``sandbox/launch.py`` writes it. ``gates`` are ports to listen
    on, each with the path of the UNIX socket to which it is forwarded."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    task: dict[str, object] | None
    parent: int
    uid: int | None
    gid: int | None
    landlock: int
    notify: bool
    own_network: bool
    readable: list[str]
    listable: list[str]
    writable: list[str]
    devices: list[str]
    ports: list[int]
    gates: list[tuple[int, str]]

    def __init__(self, fd: int) -> None:
        """Read the JSON in a descriptor, and close the descriptor."""
        value = parse_json(read_all(fd))
        os.close(fd)
        for name in self.__annotations__:
            setattr(self, name, value[name])


class Step:
    """A step of the launch. If it fails, this process reports the failure on the status pipe, and
    ends."""

    def __init__(self, status: int, name: str) -> None:
        self._status, self._name = status, name

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        line = f"failed {self._name}: {error}"[:500].encode("utf-8", "backslashreplace")
        try:
            os.write(self._status, line.replace(b"\n", b" ") + b"\n")
        finally:
            os._exit(STATUSES[self._name])


def main(spec_fd: str, status_fd: str) -> NoReturn:
    """Confine this process as the spec says, then run its program. The arguments are numbers of
    descriptors: the spec, and the status pipe."""
    status = int(status_fd)
    with Step(status, "spec"):
        spec = LaunchSpec(int(spec_fd))
        os.set_inheritable(status, False)
    with Step(status, "descriptors"):
        _check_standard_streams()
        os.closerange(3, status)
        os.closerange(status + 1, _MOST_DESCRIPTORS)
    with Step(status, "limits"):
        disable_core_dumps()
    channel = None if spec.own_network else _fork_monitor(spec, status)
    task = _import_task(spec)  # while files can still be read
    _drop_privileges(spec, status)
    _restrict(spec, status, channel)
    _run(spec, status, task)


def _check_standard_streams() -> None:
    """Refuse a standard stream that is a socket (it could send anywhere) or a folder (a way out of
    the sandbox). Raises OSError."""
    for fd in (0, 1, 2):
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or _is_harmless_device(fd, mode)):
            raise PermissionError(f"descriptor {fd} is not a pipe, file or terminal")


def _is_harmless_device(fd: int, mode: int) -> bool:
    if not stat.S_ISCHR(mode):
        return False
    # /dev/null and /dev/zero: Documentation/admin-guide/devices.txt
    return os.isatty(fd) or os.fstat(fd).st_rdev in (os.makedev(1, 3), os.makedev(1, 5))


def _fork_monitor(spec: LaunchSpec, status: int) -> _socket.socket | None:
    """Fork: the parent becomes the monitor, and the child returns its socket to the monitor, None
    if it needs none."""
    with Step(status, "session"):
        # Popen has usually started a session, and its leader cannot start another one (setsid(2)).
        if os.getsid(0) != os.getpid():
            os.setsid()
    with Step(status, "monitor"):
        call_prctl(PR_SET_SUBREAPER, 1)  # orphans of the tree become the monitor's children
        ours, theirs = _socket.socketpair()
        monitor_pid, program = os.getpid(), os.fork()
    if program:
        theirs.close()
        _run_monitor(spec, status, program, ours if spec.notify else None)
    ours.close()
    spec.parent = monitor_pid
    return theirs if spec.notify else None


def _run_monitor(
    spec: LaunchSpec, status: int, program: int, channel: _socket.socket | None
) -> NoReturn:
    with Step(status, "monitor"):
        from . import monitor  # here: the child need not wait for this import

        monitor.ignore_signals()
        if spec.uid is not None and spec.gid is not None:
            become_user(spec.uid, spec.gid)
        monitor.drop_privileges(has_own_user=spec.uid is not None)
        if os.getppid() != spec.parent:
            raise ProcessLookupError("the night shift is gone")
        monitor.watch(program, channel, status, spec.ports, spec.writable)


def _import_task(spec: LaunchSpec) -> object:
    """Import the module that runs instead of a program, None for a program."""
    if spec.task is None:
        return None
    return __import__(f"inside.{spec.task['module']}", fromlist=["main"])


def _drop_privileges(spec: LaunchSpec, status: int) -> None:
    with Step(status, "privileges"):
        # First: it needs CAP_SETPCAP, which the change of user drops (capabilities(7)).
        lock_root_out()
    with Step(status, "user"):
        if spec.uid is not None and spec.gid is not None:
            become_user(spec.uid, spec.gid)
    with Step(status, "privileges"):
        drop_capabilities()
        forbid_new_privileges()
    with Step(status, "parent"):
        if not spec.own_network:
            # After the change of user, which clears this setting (prctl(2)).
            call_prctl(PR_SET_PDEATHSIG, signals.SIGKILL)
            if os.getppid() != spec.parent:
                raise ProcessLookupError("the monitor is gone")
    with Step(status, "keyring"):
        join_own_keyring()
    with Step(status, "folder"):
        os.chdir(spec.cwd)


def _restrict(spec: LaunchSpec, status: int, channel: _socket.socket | None) -> None:
    with Step(status, "files"):
        if spec.landlock:
            ports = None if spec.own_network else spec.ports
            if ports and spec.notify:
                ports = []  # the monitor connects for the tree
            paths = LandlockPaths(spec.readable, spec.listable, spec.writable, spec.devices)
            restrict(spec.landlock, paths, ports)
    with Step(status, "calls"):
        options = FilterOptions(
            notify=spec.notify,
            own_network=spec.own_network,
            guard_signals=not spec.own_network and spec.landlock < CAN_SCOPE,
            deny_truncate=not spec.own_network and spec.landlock < CAN_TRUNCATE,
            notify_attributes=spec.notify and spec.uid is None,
        )
        listener = install(build_filter(options), listening=options.notify)
        if listener is not None and channel is not None:
            rights = listener.to_bytes(4, "little")
            channel.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
            channel.close()
            os.close(listener)  # whoever holds it could answer calls itself
    with Step(status, "gates"):
        # After all other steps, so that the forwarder inherits them.
        if spec.own_network and spec.gates:
            start_forwarder(spec.gates, status)


def _run(spec: LaunchSpec, status: int, task: object) -> NoReturn:
    with Step(status, "program"):
        # Python ignores the first two, and a program inherits ignored signals (execve(2)).
        for number in (signals.SIGPIPE, signals.SIGXFSZ, signals.SIGINT, signals.SIGTERM):
            signals.signal(number, signals.SIG_DFL)
        signals.pthread_sigmask(signals.SIG_SETMASK, [])
        call_prctl(PR_SET_DUMPABLE, 1)  # as exec would: the monitor has to read its memory
        os.write(status, b"ready\n")
        if task is not None and spec.task is not None:
            task.main(spec.task)  # type: ignore[attr-defined]
            os._exit(0)
        _execute(spec.argv, spec.env)


def _execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    """Find the program on PATH and become it. ``os.execvpe`` would import modules, which cannot be
    read any more."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)  # noqa: S606
    failure: OSError = FileNotFoundError(2, f"{argv[0]} is not on PATH")
    for folder in env.get("PATH", "").split(":"):
        try:
            os.execve(f"{folder}/{argv[0]}", argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            failure = error
    raise failure


# --- the forwarder --------------------------------------------------------------------------------


CHUNK = 1 << 16
BACKLOG = 512
SHUT_WRITING = 1
"""SHUT_WR (shutdown(2))."""


def start_forwarder(services: list[tuple[int, str]], status: int) -> None:
    """Listen on every port, and leave a forwarding process behind. Raises OSError."""
    listeners = [(_create_listener(port), path) for port, path in services]
    if (child := os.fork()) == 0:
        if os.fork() != 0:
            os._exit(0)
        # Else the reader of the report would wait for this process, which holds the pipe open.
        os.close(status)
        call_prctl(PR_SET_DUMPABLE, 0)  # the agent has the same user, and could trace it (prctl(2))
        # Forked twice, so that the program does not find a child that it did not start.
        _forward(listeners)
    os.waitpid(child, 0)
    for listener, _ in listeners:
        listener.close()


def _create_listener(port: int) -> _socket.socket:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(BACKLOG)
    return listener


def _forward(listeners: list[tuple[_socket.socket, str]]) -> NoReturn:
    for number in (signals.SIGINT, signals.SIGTERM, signals.SIGHUP):
        signals.signal(number, signals.SIG_IGN)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for listener, path in listeners:
        _thread.start_new_thread(_accept, (listener, path))
    while True:
        signals.pause()


def _accept(listener: _socket.socket, path: str) -> None:
    while True:
        fd, _ = listener._accept()  # type: ignore[attr-defined]
        inner = _socket.socket(fileno=fd)
        try:
            outer = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            outer.connect(path)
        except OSError:
            continue  # the service is gone: drop the connection
        _thread.start_new_thread(_copy, (inner, outer))
        _thread.start_new_thread(_copy, (outer, inner))


def _copy(source: _socket.socket, target: _socket.socket) -> None:
    """Copy one direction of a connection; both sockets are closed once both directions end."""
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(SHUT_WRITING)  # only this direction: an answer may still come
    except OSError:
        _shut(source)
        _shut(target)


def _shut(end: _socket.socket) -> None:
    try:
        end.shutdown(_socket.SHUT_RDWR)
    except OSError:
        return
