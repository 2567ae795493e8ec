"""Attacks that a hostile agent would try, run inside the sandbox: see ``proof.py``.

An attempt is a verb and its arguments. The outcome of reading never contains the file's content:
that it could be read is the finding.
"""
# ruff: noqa: PTH101, PTH115, PTH116, PTH123, PTH208

from __future__ import annotations

import _socket
import ctypes
import errno
import fcntl
import json
import os
import struct
import sys
import time

from .syscalls import call_prctl, make_syscall

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable


Outcome = tuple[bool | None, str]
"""True if it got through (None: it could not be tried), and how it ended."""
ATTRIBUTE = "user.nightshift"
# linux/ptrace.h, linux/keyctl.h, linux/sched.h, linux/prctl.h, linux/in.h, linux/socket.h
PTRACE_SEIZE = 0x4206
SESSION_KEYRING, GET_KEYRING_ID = -3, 0
CLONE_NEWUSER = 0x10000000
GET_NO_NEW_PRIVS = 39
IP_RECVERR = 11
MSG_FASTOPEN = 0x20000000
WORD_BYTES = 8
DAEMON_S = 30
LOCKED = b"held"
"""The daemon's message that it has the lock."""
EXHAUSTED = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Out of processes, memory or descriptors: it was the machine that refused, not the boundary."""


def main(task: dict[str, object] | None = None) -> None:
    """Try everything in ``task["attempts"]`` and print the outcomes as JSON. Without a boundary
    (``isolation: none``, or to show that an attack works) the task is read from stdin."""
    attempts = (json.load(sys.stdin) if task is None else task)["attempts"]
    assert isinstance(attempts, list)
    outcomes = [[name, *run_probe(verb, arguments)] for name, verb, *arguments in attempts]
    os.write(1, json.dumps(outcomes).encode())


def run_probe(verb: str, arguments: list[object]) -> Outcome:
    """Run one attempt. The outcome's first field is None if it could not be tried."""
    try:
        return VERBS[verb](*arguments)
    except OSError as error:
        how = os.strerror(error.errno) if error.errno else str(error)
        return (None, f"not tried: {how}") if error.errno in EXHAUSTED else (False, how)
    except Exception as error:
        return None, f"not tried: {error!r}"


# --- processes --------------------------------------------------------------------------------


def _check_process(pid: int, started: int) -> None:
    """Raise if the pid is another process: a pid namespace has its own numbers."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        # The name in field 2 may contain spaces and ")"; field 22 is the start (proc_pid_stat(5)).
        fields = stat.read().rpartition(b")")[2].split()
    if int(fields[19]) != started:
        raise ProcessLookupError(3, "another process")


def _read_environment(pid: int, started: int) -> Outcome:
    _check_process(pid, started)
    return _read(f"/proc/{pid}/environ")


def _open_memory(pid: int, started: int) -> Outcome:
    _check_process(pid, started)
    os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
    return True, "memory can be opened"


def _list_process_folder(pid: int, started: int, name: str) -> Outcome:
    _check_process(pid, started)
    return _list_folder(f"/proc/{pid}/{name}")


def _list_descriptors(pid: int, started: int) -> Outcome:
    # The numbers of descriptors are no secret, so the links have to be readable too.
    _check_process(pid, started)
    for name in os.listdir(f"/proc/{pid}/fd"):
        return True, f"{pid} has {os.readlink(f'/proc/{pid}/fd/{name}')} open"
    return False, "no descriptor"


def _attach_ptrace(pid: int, started: int) -> Outcome:
    _check_process(pid, started)
    make_syscall("ptrace", PTRACE_SEIZE, pid, 0, 0)
    return True, "ptrace attaches"


def _read_process_memory(pid: int, started: int, address: int) -> Outcome:
    _check_process(pid, started)
    buffer = ctypes.create_string_buffer(WORD_BYTES)
    local = struct.pack("=QQ", ctypes.addressof(buffer), WORD_BYTES)
    remote = struct.pack("=QQ", address, WORD_BYTES)
    return make_syscall("process_vm_readv", pid, local, 1, remote, 1, 0) > 0, "memory can be read"


def _take_descriptor(pid: int, started: int) -> Outcome:
    _check_process(pid, started)
    process = make_syscall("pidfd_open", pid, 0)
    os.close(make_syscall("pidfd_getfd", process, 0, 0))
    return True, "descriptors can be taken"


def _send_signal(pid: int, started: int) -> Outcome:
    _check_process(pid, started)
    os.kill(pid, 0)  # signal 0 only checks permission (kill(2))
    return True, "signals arrive"


# --- network and sockets ----------------------------------------------------------------------


def _connect(host: str, port: int) -> Outcome:
    family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
    tcp = _socket.socket(family, _socket.SOCK_STREAM)
    tcp.settimeout(0.2)
    try:
        tcp.connect((host, port))
    except TimeoutError:
        return True, f"{host} port {port}: the packet was sent"
    finally:
        tcp.close()
    return True, f"{host} port {port} can be reached"


def _receive_greeting(host: str, port: int) -> Outcome:
    """Wait for the service's greeting: the forwarder accepts every connection itself, so a connect
    proves nothing. If this times out, the trial is repeated."""
    tcp = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    tcp.settimeout(5)
    tcp.connect((host, port))
    greeting = tcp.recv(100)
    return greeting != b"", f"port {port} answers" if greeting else "nobody answers"


def _send_datagram(host: str, port: int) -> Outcome:
    """Send with ``sendmsg``: its address lies in memory, which no filter can read."""
    udp = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    # The ICMP error for the first datagram is reported by the second send (ip(7)).
    udp.setsockopt(_socket.IPPROTO_IP, IP_RECVERR, 1)
    for _ in range(2):
        udp.sendmsg([b"x"], [], 0, (host, port))
    return True, f"UDP to {host} port {port} is sent"


def _make_socket(family: int, kind: int, protocol: int) -> Outcome:
    _socket.socket(family, kind, protocol).close()
    return True, f"socket({family}, {kind}, {protocol}) can be made"


def _send_fast_open(host: str, port: int) -> Outcome:
    tcp = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    tcp.settimeout(0.2)
    try:
        tcp.sendto(b"x", MSG_FASTOPEN, (host, port))  # connects without a call of connect
    except TimeoutError:
        return True, "the packet was sent"
    return True, f"TCP fast open reaches {host} port {port}"


def _connect_unix(path: str) -> Outcome:
    address = b"\0" + path[1:].encode() if path.startswith("@") else path
    client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    client.connect(address)
    return True, f"{path} can be connected to"


# --- privileges and lifetime ------------------------------------------------------------------


def _use_keyring() -> Outcome:
    make_syscall("keyctl", GET_KEYRING_ID, SESSION_KEYRING, 0)
    return True, "keyrings can be reached"


def _make_namespace() -> Outcome:
    make_syscall("unshare", CLONE_NEWUSER)
    return True, "a user namespace can be made"


def _read_privileges() -> Outcome:
    with open("/proc/self/status", "rb") as status:
        lines = status.read().split(b"\n")
    sets = [line for line in lines if line.startswith((b"CapPrm", b"CapEff", b"CapAmb"))]
    if any(int(line.split()[1], 16) for line in sets):
        return True, b", ".join(sets).decode().replace("\t", " ")
    if call_prctl(GET_NO_NEW_PRIVS) != 1:
        return True, "setuid programs gain rights"
    return False, "none"


def _list_inherited() -> Outcome:
    """Descriptors above 2 that a program would inherit: not the folder being listed, nor the status
    pipe (close-on-exec)."""
    inherited = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                inherited.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    return bool(inherited), ", ".join(inherited) or "none"


def _outlive(path: str) -> Outcome:
    """Leave a daemon behind that holds a lock: proof.py looks for the lock afterwards."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            # A session of its own and a dead parent: killing the group or the children misses it.
            os.setsid()
            if os.fork() == 0:
                _run_daemon(path, writer)
        except OSError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)  # whatever happened: only its parent goes on with the other attempts
    os.close(writer)
    os.waitpid(child, 0)
    message = os.read(reader, 200)
    os.close(reader)
    if message != LOCKED:
        return None, f"not tried: {message.decode(errors='replace') or 'no daemon came up'}"
    return True, "a daemon survives"


def _run_daemon(path: str, writer: int) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, b"%d" % os.getpid())
    os.closerange(0, 3)  # else the reader of the proof's output would wait for this process
    os.write(writer, LOCKED)
    os.close(writer)
    time.sleep(DAEMON_S)


# --- files ----------------------------------------------------------------------------------------


def _read(path: str) -> Outcome:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if os.read(fd, 1):
            return True, f"{path} can be read"
        return False, "empty"
    except IsADirectoryError:
        return _list_folder(path)
    finally:
        os.close(fd)


def _list_folder(path: str) -> Outcome:
    return bool(os.listdir(path)), f"{path} can be listed"


def _compare_inode(path: str, device: int, inode: int) -> Outcome:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    if (status.st_dev, status.st_ino) == (device, inode):
        return True, f"{path} is the real one"
    return False, "another file is in its place"


def _write(path: str) -> Outcome:
    """Create a file. Only a look from outside shows if it is real: this may be another /tmp."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.close(fd)
    return True, f"{path} can be made"


def _open_to_write(path: str) -> Outcome:
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    return True, f"{path} can be opened for writing"


def _check_usable(path: str) -> Outcome:
    """Not an attack: a program that agents need must be readable and executable."""
    os.close(os.open(path, os.O_RDONLY))
    return os.access(path, os.X_OK), f"{path} is not executable"


def _change_mode(path: str) -> Outcome:
    os.chmod(path, 0o600)
    return True, f"{path}: its mode can be changed"


def _set_mode(path: str) -> Outcome:
    """Set the mode it already has, so that nothing changes where this is allowed."""
    os.chmod(path, os.stat(path).st_mode & 0o7777)
    return True, f"{path}: its mode can be set"


def _change_mode_by_descriptor(path: str) -> Outcome:
    """Change it through an ``O_PATH`` descriptor, which opens without any right from Landlock."""
    fd = os.open(path, os.O_PATH)
    try:
        return _change_mode(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def _change_times(path: str) -> Outcome:
    os.utime(path, (1, 1))
    return True, f"{path}: its times can be changed"


def _change_owner(path: str) -> Outcome:
    """Set the owner it already has, which only the owner may."""
    os.chown(path, os.getuid(), os.getgid())
    return True, f"{path}: its owner can be changed"


def _change_attribute(path: str) -> Outcome:
    os.setxattr(path, ATTRIBUTE, b"x")
    return True, f"{path}: it can be given an attribute"


VERBS: dict[str, Callable[..., Outcome]] = {
    "read": _read,
    "list": _list_folder,
    "same": _compare_inode,
    "write": _write,
    "open_to_write": _open_to_write,
    "change_mode": _change_mode,
    "set_mode": _set_mode,
    "change_mode_held": _change_mode_by_descriptor,
    "change_times": _change_times,
    "change_owner": _change_owner,
    "change_attribute": _change_attribute,
    "usable": _check_usable,
    "environment": _read_environment,
    "memory": _open_memory,
    "folder": _list_process_folder,
    "descriptors": _list_descriptors,
    "ptrace": _attach_ptrace,
    "vm_read": _read_process_memory,
    "descriptor_of": _take_descriptor,
    "signal": _send_signal,
    "connect": _connect,
    "greeted": _receive_greeting,
    "datagram": _send_datagram,
    "socket": _make_socket,
    "fast_open": _send_fast_open,
    "unix": _connect_unix,
    "keyring": _use_keyring,
    "namespace": _make_namespace,
    "privileges": _read_privileges,
    "inherited": _list_inherited,
    "outlive": _outlive,
}
