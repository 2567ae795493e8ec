"""The broker of a process that reads what agents write: it starts agents' launchers for it, and
changes modes, owners, times and extended attributes for it below the folders that it may write.

What that process started itself would inherit its filter, which has a listener already: the kernel
allows one above a process, and agents' own is that of their monitor. The broker was started before
that filter was in force, confined in everything else as that process is. It believes nothing that
it is asked: a launcher gets a copy of the spec that was judged, in which nothing can be changed any
more, and its tree has a monitor. Without a broker the kernel answers ENOSYS.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import select
import sys

from .attributes import AttributeHandler
from .json_data import parse_json, read_all
from .kernel import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, call_prctl, make_syscall, signals
from .notification import handle_next

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from typing import Any, NoReturn

EPERM, EINVAL = 1, 22
CLONE_PARENT = 0x8000
SEALED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
PROOF = "attacks"
"""The one module that acts instead of a program."""
START = 5
"""Descriptors of a start: the spec, the status pipe, the program's standard streams."""
ANSWER_BYTES = 8
NOT_STARTED = 127


class LaunchTerms:
    """What each launch has to be: ``fixed`` are fields of its spec, and its writable folders lie in
    ``folders``, or are one of ``shared``."""

    def __init__(self, fixed: dict[str, Any], folders: list[str], shared: list[str]) -> None:
        self.fixed, self.folders, self.shared = fixed, folders, shared

    def judge(self, spec: Any) -> str:
        """What in a spec may not be, "" where all may."""
        if not isinstance(spec, dict):
            return "spec"
        for name, value in self.fixed.items():
            if type(spec.get(name)) is not type(value) or spec[name] != value:
                return name
        act = spec.get("act")
        if act is not None and not (isinstance(act, dict) and act.get("module") == PROOF):
            return "act"
        writable = spec.get("writable")
        if not isinstance(writable, list) or not all(map(self._may_be_written, writable)):
            return "writable"
        return ""

    def _may_be_written(self, folder: Any) -> bool:
        if not isinstance(folder, str) or os.path.normpath(folder) != folder:
            return False
        return folder in self.shared or any(
            folder == top or folder.startswith(f"{top}/") for top in self.folders
        )


def main(channel: int, parent: int) -> NoReturn:
    """Serve until the process at the other end has ended."""
    signals.pthread_sigmask(signals.SIG_BLOCK, [signals.SIGINT, signals.SIGTERM])
    call_prctl(PR_SET_DUMPABLE, 0)
    call_prctl(PR_SET_PDEATHSIG, signals.SIGKILL)
    if os.getppid() != parent:
        os._exit(NOT_STARTED)
    serve(_socket.socket(fileno=channel), parent)
    os._exit(0)


def serve(channel: _socket.socket, parent: int) -> None:
    """Get the terms and the listener, then do what is asked for."""
    told, listener = _receive(channel)
    terms = parse_json(read_all(told))
    os.close(told)
    folders = terms["folders"]
    fixed = {**terms["fixed"], "notify": True, "own_network": False, "parent": parent}
    launches = LaunchTerms(fixed, folders, terms["shared"])
    handlers = AttributeHandler(folders, lambda _: None).build_handlers()
    _answer(channel, os.getpid())
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(listener, select.POLLIN)
    while True:
        for fd, event in poll.poll():
            if not event & select.POLLIN:
                return
            if fd == listener:
                handle_next(listener, handlers)
            elif not _take_launch(channel, launches):
                return


def _receive(channel: _socket.socket) -> list[int]:
    """The descriptors of the next message; none at the end."""
    room = _socket.CMSG_LEN(4 * START)
    _, ancillary, _, _ = channel.recvmsg(1, room, _socket.MSG_CMSG_CLOEXEC)
    data = b"".join(data for _, _, data in ancillary)
    return [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]


def _answer(channel: _socket.socket, number: int) -> None:
    """A pid, or an error's number below 0."""
    channel.send(number.to_bytes(ANSWER_BYTES, "little", signed=True))


def _take_launch(channel: _socket.socket, terms: LaunchTerms) -> bool:
    """Answer one request; False where there are no more."""
    given = _receive(channel)
    if not given:
        return False
    try:
        _answer(channel, _launch(given, terms))
    except OSError as error:
        _answer(channel, -(error.errno or EPERM))
    except Exception:
        _answer(channel, -EINVAL)
    finally:
        for fd in given:
            os.close(fd)
    return True


def _launch(given: list[int], terms: LaunchTerms) -> int:
    """The pid of a new launcher, which is a child of who asked for it. Raises OSError."""
    told, status, *streams = given
    data = read_all(told)
    if wrong := terms.judge(parse_json(data)):
        raise PermissionError(EPERM, wrong)
    spec = _write_sealed(data)
    try:
        pid = make_syscall("clone", CLONE_PARENT | signals.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            _become_launcher(spec, status, streams)
        return pid
    finally:
        os.close(spec)


def _write_sealed(data: bytes) -> int:
    """A file with these bytes for good: who can open its descriptor cannot write it."""
    spec = os.memfd_create("spec", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(spec, data)
    fcntl.fcntl(spec, fcntl.F_ADD_SEALS, SEALED)
    return spec


def _become_launcher(spec: int, status: int, streams: list[int]) -> NoReturn:
    try:
        os.setsid()
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        for fd in (spec, status):
            os.set_inheritable(fd, True)
        launcher = f"{os.path.dirname(__file__)}/launcher.py"  # noqa: PTH120
        command = [sys.executable, "-I", "-S", launcher, str(spec), str(status)]
        os.execve(sys.executable, command, {})  # noqa: S606
    finally:
        os._exit(NOT_STARTED)
