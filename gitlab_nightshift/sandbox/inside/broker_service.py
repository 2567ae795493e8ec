"""The broker starts agents' launchers for its client, a process that reads what agents write, and
changes modes, owners, times and extended attributes for it in the writable folders.

The client's system call filter has a listener. Children of the client would inherit the filter, and
the kernel allows only one listener per chain of filters, which agents need for their monitor. So
the broker is started before the filter is installed; otherwise it is confined like the client. It
trusts no request: a launcher gets a sealed copy of the spec that was checked, and the tree that it
starts has a monitor. If the broker is gone, the kernel fails the filtered calls with ENOSYS.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import select
import sys

from .attributes import AttributeHandler
from .json_data import parse_json, read_all
from .notification import handle_next
from .syscalls import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, call_prctl, make_syscall, signals

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from typing import Any, NoReturn

EPERM, EINVAL = 1, 22
CLONE_PARENT = 0x8000
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
PROOF_MODULE = "attacks"
"""The only module that may run instead of a program."""
LAUNCH_DESCRIPTORS = 5
"""The spec, the status pipe, the program's three standard streams."""
ANSWER_BYTES = 8
NOT_STARTED = 127


class LaunchTerms:
    """The conditions of every launch: the spec has the ``fixed`` values, and each writable folder
    in it lies in ``folders`` or is one of ``shared``."""

    def __init__(self, fixed: dict[str, Any], folders: list[str], shared: list[str]) -> None:
        self.fixed, self.folders, self.shared = fixed, folders, shared

    def find_violation(self, spec: Any) -> str:
        """The field of a spec that breaks the terms, "" if none does."""
        if not isinstance(spec, dict):
            return "spec"
        for name, value in self.fixed.items():
            # JSON's true equals 1 in Python: compare the types as well.
            if type(spec.get(name)) is not type(value) or spec[name] != value:
                return name
        task = spec.get("task")
        if task is not None and not (isinstance(task, dict) and task.get("module") == PROOF_MODULE):
            return "task"
        writable = spec.get("writable")
        if not isinstance(writable, list) or not all(map(self._is_allowed, writable)):
            return "writable"
        return ""

    def _is_allowed(self, folder: Any) -> bool:
        if not isinstance(folder, str) or os.path.normpath(folder) != folder:
            return False
        return folder in self.shared or any(
            folder == top or folder.startswith(f"{top}/") for top in self.folders
        )


def main(channel: str, parent_pid: str) -> NoReturn:
    """Serve the client until it ends. ``channel`` is the descriptor of the socket to it,
    ``parent_pid`` its pid."""
    parent = int(parent_pid)
    # The signals are for the client, which ends the broker by closing the socket.
    signals.pthread_sigmask(signals.SIG_BLOCK, [signals.SIGINT, signals.SIGTERM])
    call_prctl(PR_SET_DUMPABLE, 0)  # no ptrace, no /proc/<pid>/mem for the same user (prctl(2))
    call_prctl(PR_SET_PDEATHSIG, signals.SIGKILL)
    # The parent may have died before that call, which arranges for a later death only (prctl(2)).
    if os.getppid() != parent:
        os._exit(NOT_STARTED)
    serve(_socket.socket(fileno=int(channel)), parent)
    os._exit(0)


def serve(channel: _socket.socket, parent: int) -> None:
    """Receive the terms and the listener, then serve requests."""
    terms_fd, listener = _receive_descriptors(channel)
    terms = parse_json(read_all(terms_fd))
    os.close(terms_fd)
    fixed = {**terms["fixed"], "notify": True, "own_network": False, "parent": parent}
    launch_terms = LaunchTerms(fixed, terms["folders"], terms["shared"])
    handlers = AttributeHandler(terms["folders"], lambda _: None).build_handlers()
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
            elif not _handle_request(channel, launch_terms):
                return


def _receive_descriptors(channel: _socket.socket) -> list[int]:
    """The descriptors of the next message; none once the other end is closed."""
    # The kernel drops those that do not fit: a message cannot fill our descriptor table (unix(7)).
    size = _socket.CMSG_LEN(4 * LAUNCH_DESCRIPTORS)
    _, ancillary, _, _ = channel.recvmsg(1, size, _socket.MSG_CMSG_CLOEXEC)
    data = b"".join(data for _, _, data in ancillary)
    return [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]


def _answer(channel: _socket.socket, number: int) -> None:
    """Send a pid, or a negative error number."""
    channel.send(number.to_bytes(ANSWER_BYTES, "little", signed=True))


def _handle_request(channel: _socket.socket, terms: LaunchTerms) -> bool:
    """Answer one request for a launch; False if the client has closed the socket."""
    descriptors = _receive_descriptors(channel)
    if not descriptors:
        return False
    try:
        _answer(channel, _launch(descriptors, terms))
    except OSError as error:
        _answer(channel, -(error.errno or EPERM))
    except Exception:
        _answer(channel, -EINVAL)
    finally:
        for fd in descriptors:
            os.close(fd)
    return True


def _launch(descriptors: list[int], terms: LaunchTerms) -> int:
    """Start a launcher as a child of the client, and return its pid. Raises OSError."""
    spec_fd, status, *streams = descriptors
    data = read_all(spec_fd)
    if violation := terms.find_violation(parse_json(data)):
        raise PermissionError(EPERM, violation)
    spec = _write_sealed(data)
    try:
        # CLONE_PARENT: the client is the parent, so that it can wait for the launcher (clone(2)).
        pid = make_syscall("clone", CLONE_PARENT | signals.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            _become_launcher(spec, status, streams)
        return pid
    finally:
        os.close(spec)


def _write_sealed(data: bytes) -> int:
    """Make an unnamed file with these bytes, which nobody can change any more (seals: fcntl(2))."""
    spec = os.memfd_create("spec", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(spec, data)
    fcntl.fcntl(spec, fcntl.F_ADD_SEALS, SEALS)
    return spec


def _become_launcher(spec: int, status: int, streams: list[int]) -> NoReturn:
    try:
        os.setsid()  # as Popen does with start_new_session: its group can be killed
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        for fd in (spec, status):
            os.set_inheritable(fd, True)
        launcher = f"{os.path.dirname(__file__)}/launcher.py"  # noqa: PTH120
        command = [sys.executable, "-I", "-S", launcher, "confine", str(spec), str(status)]
        os.execve(sys.executable, command, {})  # noqa: S606
    finally:
        os._exit(NOT_STARTED)
