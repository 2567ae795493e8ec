"""Where a confined tree may connect, without privileges: the monitor makes every socket.

``socket`` is answered with a socket that the monitor made and of which it keeps a duplicate, known
again by its inode. The monitor does ``connect``, ``bind`` and ``listen`` itself on the duplicate,
with its own copy of the address: what was checked is what is used, whatever the caller's threads
do to memory or descriptors meanwhile. Allowed are the given loopback ports, loopback ports on which
only the tree listens, and UNIX sockets below the writable folders. A UDP socket can be bound and
asked for interfaces, which build tools do, but it cannot send.
"""
# ruff: noqa: PTH115, PTH208

from __future__ import annotations

import _socket
import _thread
import os

from .kernel import bind_raw, connect_raw
from .listeners import find_listeners
from .mute_sockets import DATAGRAM, silence
from .notification import SystemCall
from .socket_addresses import (
    AF_UNIX,
    AF_UNSPEC,
    LOOPBACK,
    build_bind_address,
    format_address,
    parse_host_and_port,
    pin_socket,
    read_address_family,
    resolve_unix_path,
    to_pinned,
)
from .syscall_numbers import NUMBERS

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable

EPERM, EAGAIN, EADDRINUSE, EISCONN, ECONNREFUSED, EINPROGRESS = 1, 11, 98, 106, 111, 115
ENOTSOCK, ENETUNREACH = 88, 101
TYPE_BITS = 0xF
CLOSE_ON_EXEC = 0o2000000
REMEMBERED = 8192
WAITING = 64
"""Connects that may wait for a full backlog at a time, each in a thread."""
NAME_CACHE = "/var/run/nscd/socket"
"""Every C library asks for it and does without: not worth a report."""
LOOPBACK_NAMES = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


class EgressHandler:
    """The sockets of one tree."""

    def __init__(self, ports: list[int], folders: list[str], refuse: Callable[[str], None]) -> None:
        self._ports, self._refuse = frozenset(ports), refuse
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._made: dict[int, int] = {}
        self._done: dict[int, None] = {}
        self._mute: dict[int, None] = {}
        self._listening: dict[int, None] = {}
        self._collect_at, self._waiting = 256, 0

    def build_handlers(self) -> dict[int, Callable[[SystemCall], None]]:
        """What is done for which call."""
        return {
            NUMBERS["socket"]: self._make,
            NUMBERS["connect"]: self._connect,
            NUMBERS["bind"]: self._bind,
            NUMBERS["listen"]: self._listen,
        }

    def _make(self, call: SystemCall) -> None:
        if len(self._made) >= self._collect_at:
            self._collect()
            self._collect_at = max(256, 2 * len(self._made))
        kind = call.read_int_argument(1)
        made = _socket.socket(
            call.read_int_argument(0), kind & ~CLOSE_ON_EXEC, call.read_int_argument(2)
        )
        if kind & TYPE_BITS == DATAGRAM:
            silence(made)
        fd = made.detach()
        try:
            call.give(fd, close_on_exec=bool(kind & CLOSE_ON_EXEC))
        except OSError:
            os.close(fd)
            raise
        inode = os.fstat(fd).st_ino
        self._made[inode] = fd
        if kind & TYPE_BITS == DATAGRAM:
            _remember(self._mute, inode)

    def _find_socket(self, call: SystemCall) -> tuple[int, int | None]:
        """The inode of the call's socket, and our duplicate, if it is still to be connected."""
        inode = call.find_socket_inode()
        call.check_waiting()
        if inode is None:
            raise OSError(ENOTSOCK, "not a socket")
        return inode, self._made.get(inode)

    # --- connect ---------------------------------------------------------------------------------

    def _connect(self, call: SystemCall) -> None:
        raw = call.read_address()
        path = resolve_unix_path(raw, call.thread) if read_address_family(raw) == AF_UNIX else ""
        inode, fd = self._find_socket(call)
        if fd is None:
            call.answer(EISCONN if inode in self._done else EPERM)
            return
        if inode in self._mute:
            call.answer(ENETUNREACH)
            return
        pin = None
        if read_address_family(raw) == AF_UNIX:
            pin = self._pin_unix_socket(path)
            raw = to_pinned(pin)
        elif read_address_family(raw) != AF_UNSPEC and (error := self._judge_address(raw)):
            call.answer(error)
            return
        copy = os.dup(fd)
        if not os.get_blocking(copy):
            self._finish(call, inode, copy, raw, pin)
        elif self._waiting >= WAITING:
            call.answer(EAGAIN)
        else:
            self._waiting += 1
            _thread.start_new_thread(self._wait, (call, inode, copy, raw, pin))

    def _pin_unix_socket(self, path: str) -> int:
        try:
            return pin_socket(path, self._folders)
        except PermissionError:
            if path != NAME_CACHE:
                self._refuse(f"connect to UNIX socket {path or '(abstract)'}")
            raise

    def _judge_address(self, raw: bytes) -> int:
        """0 where the address may be connected to, else the error number."""
        host, port = parse_host_and_port(raw)
        if host in LOOPBACK:
            if port in self._ports:
                return 0
            there = find_listeners(port)
            if not there:
                return ECONNREFUSED
            if self._listening.keys() >= there:
                return 0
        self._refuse(f"connect to {format_address(host, port)}")
        return EPERM

    def _wait(self, call: SystemCall, inode: int, copy: int, raw: bytes, pin: int | None) -> None:
        self._finish(call, inode, copy, raw, pin)
        self._waiting -= 1

    def _finish(self, call: SystemCall, inode: int, copy: int, raw: bytes, pin: int | None) -> None:
        error = connect_raw(copy, raw)
        if error in (0, EINPROGRESS) and read_address_family(raw) != AF_UNSPEC:
            self._drop(inode)
        os.close(copy)
        if pin is not None:
            os.close(pin)
        call.answer(error)

    # --- bind and listen -------------------------------------------------------------------------

    def _bind(self, call: SystemCall) -> None:
        raw = call.read_address()
        _, fd = self._find_socket(call)
        if fd is None:
            call.answer(EPERM)
            return
        ours = _socket.socket(fileno=os.dup(fd))
        try:
            if ours.family == AF_UNIX:
                if raw[2:3] in (b"", b"\0"):
                    raise PermissionError(EPERM, "a name that everybody shares")
                call.let_through()  # Landlock and the user's rights say where; no port to take
                return
            if ours.type == DATAGRAM:  # two may share a UDP port, and one gets what is the other's
                ours.setsockopt(1, 2, 0)
                ours.setsockopt(1, 15, 0)
                if parse_host_and_port(raw)[0] not in LOOPBACK:  # datagrams of outsiders would come
                    raise PermissionError(EPERM, "not on loopback")
            only_v6 = ours.family == 10 and bool(ours.getsockopt(41, 26))
            call.answer(self._bind_address(ours.fileno(), build_bind_address(raw, only_v6=only_v6)))
        finally:
            ours.close()

    def _bind_address(self, fd: int, raw: bytes) -> int:
        error = bind_raw(fd, raw)
        if error == EADDRINUSE:
            self._collect()  # a socket that only we still hold may have the port
            error = bind_raw(fd, raw)
        return error

    def _listen(self, call: SystemCall) -> None:
        inode, fd = self._find_socket(call)
        if fd is None:
            call.answer(0 if inode in self._done else EPERM)
            return
        ours = _socket.socket(fileno=os.dup(fd))
        try:
            if ours.family == AF_UNIX:
                _refuse_abstract(ours)  # whatever bind was shown
            else:
                self._ensure_loopback(ours)
                if find_listeners(ours.getsockname()[1]) - self._listening.keys():
                    raise OSError(EADDRINUSE, "shared with somebody else (SO_REUSEPORT)")
                _remember(self._listening, inode)
            ours.listen(min(call.arguments[1] & 0x7FFFFFFF, 4096))
            if ours.family == AF_UNIX:
                _refuse_abstract(ours)  # a bind that was on its way; from here on the name stays
        finally:
            ours.close()
        self._drop(inode)
        call.answer()

    def _ensure_loopback(self, ours: _socket.socket) -> None:
        """See that a socket is bound to loopback, one that is not bound at all to a free port."""
        if not ours.getsockname()[1]:
            ours.bind(("127.0.0.1" if ours.family == 2 else "::ffff:127.0.0.1", 0))
        if ours.getsockname()[0] not in LOOPBACK_NAMES:
            raise PermissionError(EPERM, "not on loopback")

    # --- what is kept ----------------------------------------------------------------------------

    def _drop(self, inode: int) -> None:
        fd = self._made.pop(inode, None)
        _remember(self._done, inode)
        if fd is not None:
            os.close(fd)

    def _collect(self) -> None:
        """Close duplicates of sockets that no process of the tree holds any more."""
        held = _list_other_sockets()
        for inode in [inode for inode in self._made if inode not in held]:
            os.close(self._made.pop(inode))


def _refuse_abstract(unix: _socket.socket) -> None:
    """An abstract name may be another program's, whose clients would come. Raises OSError."""
    if isinstance(unix.getsockname(), bytes):
        unix.shutdown(_socket.SHUT_RDWR)
        raise PermissionError(EPERM, "an abstract name")


def _remember(known: dict[int, None], inode: int) -> None:
    known[inode] = None
    if len(known) > REMEMBERED:
        del known[next(iter(known))]


def _list_other_sockets() -> set[int]:
    found: set[int] = set()
    for pid in _list_folder("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            folder = f"/proc/{pid}/fd"
            links = (_read_link(f"{folder}/{name}") for name in _list_folder(folder))
            found.update(int(link[8:-1]) for link in links if link.startswith("socket:["))
    return found


def _list_folder(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
