"""Limits where a confined tree may connect, without privileges: the monitor makes each socket.

The monitor keeps a duplicate of each socket, which it finds by the inode, and calls ``connect``,
``bind`` and ``listen`` itself on the duplicate, with its own copy of the address: the address that
was checked is the one in use, whatever the caller's threads do to memory or descriptors meanwhile.
Allowed are the gateway's ports on loopback, loopback ports on which only the tree listens, and UNIX
sockets below the writable folders. A UDP socket can be bound, and list interfaces, as build tools
do, but it cannot send.
"""
# ruff: noqa: PTH115, PTH208

from __future__ import annotations

import _socket
import _thread
import os

from .notification import SystemCall
from .sockets import (
    AF_UNIX,
    AF_UNSPEC,
    DATAGRAM,
    LOOPBACK,
    build_bind_address,
    build_pinned_address,
    disable_sending,
    find_listeners,
    format_address,
    parse_host_and_port,
    pin_socket,
    read_address_family,
    resolve_unix_path,
)
from .syscalls import NUMBERS, bind_raw, connect_raw

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from collections.abc import Callable

EPERM, EAGAIN, EADDRINUSE, EISCONN, ECONNREFUSED, EINPROGRESS = 1, 11, 98, 106, 111, 115
ENOTSOCK, ENETUNREACH = 88, 101
TYPE_BITS = 0xF
CLOSE_ON_EXEC = 0o2000000
MOST_REMEMBERED = 8192
"""Inodes to remember: of connected sockets, of those that cannot send, and of listening ones."""
FIRST_CLOSING = 256
"""Number of duplicates at which unused ones are closed; later at twice as many as were left."""
MOST_WAITING = 64
"""Connects that may wait for a full backlog at the same time, each in a thread."""
NSCD_SOCKET = "/var/run/nscd/socket"
"""The C library tries nscd first and works without it (nscd(8)): not worth a report."""
LOOPBACK_NAMES = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


class EgressHandler:
    """Makes and checks the sockets of one tree: it may connect to ``ports`` on loopback, and to
    UNIX sockets in ``folders``."""

    def __init__(self, ports: list[int], folders: list[str], refuse: Callable[[str], None]) -> None:
        self._ports, self._refuse = frozenset(ports), refuse
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._duplicates: dict[int, int] = {}
        self._connected: dict[int, None] = {}
        self._muted: dict[int, None] = {}
        self._listening: dict[int, None] = {}
        self._close_unused_at, self._waiting = FIRST_CLOSING, 0

    def build_handlers(self) -> dict[int, Callable[[SystemCall], None]]:
        """The handler of each system call number."""
        return {
            NUMBERS["socket"]: self._create,
            NUMBERS["connect"]: self._connect,
            NUMBERS["bind"]: self._bind,
            NUMBERS["listen"]: self._listen,
        }

    def _create(self, call: SystemCall) -> None:
        if len(self._duplicates) >= self._close_unused_at:
            self._close_unused()
            self._close_unused_at = max(FIRST_CLOSING, 2 * len(self._duplicates))
        kind = call.read_int_argument(1)
        new = _socket.socket(
            call.read_int_argument(0), kind & ~CLOSE_ON_EXEC, call.read_int_argument(2)
        )
        if kind & TYPE_BITS == DATAGRAM:
            disable_sending(new)
        fd = new.detach()
        try:
            call.answer_with_descriptor(fd, close_on_exec=bool(kind & CLOSE_ON_EXEC))
        except OSError:
            os.close(fd)
            raise
        inode = os.fstat(fd).st_ino
        self._duplicates[inode] = fd
        if kind & TYPE_BITS == DATAGRAM:
            _remember(self._muted, inode)

    def _find_socket(self, call: SystemCall) -> tuple[int, int | None]:
        """The inode of the call's socket, and our duplicate: None once it connected or listens."""
        inode = call.find_socket_inode()
        call.check_waiting()
        if inode is None:
            raise OSError(ENOTSOCK, "not a socket")
        return inode, self._duplicates.get(inode)

    # --- connect ---------------------------------------------------------------------------------

    def _connect(self, call: SystemCall) -> None:
        raw = call.read_address()
        path = resolve_unix_path(raw, call.thread) if read_address_family(raw) == AF_UNIX else ""
        # Last of all reads from the thread: it checks that the pid is still the thread's.
        inode, fd = self._find_socket(call)
        if fd is None:
            call.answer(EISCONN if inode in self._connected else EPERM)
            return
        if inode in self._muted:
            call.answer(ENETUNREACH)
            return
        pin = None
        if read_address_family(raw) == AF_UNIX:
            pin = self._pin_unix_socket(path)
            raw = build_pinned_address(pin)
        elif read_address_family(raw) != AF_UNSPEC and (error := self._judge_address(raw)):
            call.answer(error)
            return
        copy = os.dup(fd)  # a later call may close the duplicate while a thread still connects
        if not os.get_blocking(copy):
            self._finish(call, inode, copy, raw, pin)
        elif self._waiting >= MOST_WAITING:
            call.answer(EAGAIN)
        else:
            self._waiting += 1
            _thread.start_new_thread(self._finish_in_thread, (call, inode, copy, raw, pin))

    def _pin_unix_socket(self, path: str) -> int:
        try:
            return pin_socket(path, self._folders)
        except PermissionError:
            if path != NSCD_SOCKET:
                self._refuse(f"connect to UNIX socket {path or '(abstract)'}")
            raise

    def _judge_address(self, raw: bytes) -> int:
        """0 if the tree may connect to this address, else the error number."""
        host, port = parse_host_and_port(raw)
        if host in LOOPBACK:
            if port in self._ports:
                return 0
            listeners = find_listeners(port)
            if not listeners:
                return ECONNREFUSED
            if self._listening.keys() >= listeners:
                return 0
        self._refuse(f"connect to {format_address(host, port)}")
        return EPERM

    def _finish_in_thread(
        self, call: SystemCall, inode: int, copy: int, raw: bytes, pin: int | None
    ) -> None:
        self._finish(call, inode, copy, raw, pin)
        self._waiting -= 1

    def _finish(self, call: SystemCall, inode: int, copy: int, raw: bytes, pin: int | None) -> None:
        error = connect_raw(copy, raw)
        # AF_UNSPEC dissolves a connection (connect(2)): the next one needs the duplicate.
        if error in (0, EINPROGRESS) and read_address_family(raw) != AF_UNSPEC:
            self._release(inode)
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
        duplicate = _socket.socket(fileno=os.dup(fd))
        try:
            if duplicate.family == AF_UNIX:
                if raw[2:3] in (b"", b"\0"):
                    raise PermissionError(EPERM, "an abstract name")
                # No port is taken; Landlock and the user's rights decide about the path.
                call.let_through()
                return
            if duplicate.type == DATAGRAM:
                # On a shared UDP port the tree could receive another program's datagrams.
                duplicate.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 0)
                duplicate.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEPORT, 0)
                if parse_host_and_port(raw)[0] not in LOOPBACK:  # outsiders could send to it
                    raise PermissionError(EPERM, "not on loopback")
            only_v6 = duplicate.family == _socket.AF_INET6 and bool(
                duplicate.getsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY)
            )
            address = build_bind_address(raw, only_v6=only_v6)
            call.answer(self._bind_address(duplicate.fileno(), address))
        finally:
            duplicate.close()

    def _bind_address(self, fd: int, raw: bytes) -> int:
        error = bind_raw(fd, raw)
        if error == EADDRINUSE:
            self._close_unused()  # one that only the monitor still has open may occupy the port
            error = bind_raw(fd, raw)
        return error

    def _listen(self, call: SystemCall) -> None:
        inode, fd = self._find_socket(call)
        if fd is None:
            call.answer(0 if inode in self._connected else EPERM)
            return
        duplicate = _socket.socket(fileno=os.dup(fd))
        try:
            if duplicate.family == AF_UNIX:
                # bind was let through: the kernel read its address again, perhaps another one.
                _refuse_abstract(duplicate)
            else:
                self._ensure_loopback(duplicate)
                if find_listeners(duplicate.getsockname()[1]) - self._listening.keys():
                    raise OSError(EADDRINUSE, "another program listens there (SO_REUSEPORT)")
                _remember(self._listening, inode)
            # The default limit since Linux 5.4 (listen(2)).
            duplicate.listen(min(call.arguments[1] & 0x7FFFFFFF, 4096))
            if duplicate.family == AF_UNIX:
                # Again, as a concurrent bind may have come between; a listening socket keeps its
                # name.
                _refuse_abstract(duplicate)
        finally:
            duplicate.close()
        self._release(inode)
        call.answer()

    def _ensure_loopback(self, duplicate: _socket.socket) -> None:
        """Bind an unbound socket to a free loopback port. Raises OSError if it is bound
        elsewhere."""
        if not duplicate.getsockname()[1]:
            is_ipv4 = duplicate.family == _socket.AF_INET
            duplicate.bind(("127.0.0.1" if is_ipv4 else "::ffff:127.0.0.1", 0))
        if duplicate.getsockname()[0] not in LOOPBACK_NAMES:
            raise PermissionError(EPERM, "not on loopback")

    # --- duplicates ------------------------------------------------------------------------------

    def _release(self, inode: int) -> None:
        """Close the duplicate of a socket that is connected or listens."""
        fd = self._duplicates.pop(inode, None)
        _remember(self._connected, inode)
        if fd is not None:
            os.close(fd)

    def _close_unused(self) -> None:
        """Close the duplicates of sockets that no process of the tree has open any more."""
        open_inodes = _list_other_sockets()
        for inode in [inode for inode in self._duplicates if inode not in open_inodes]:
            os.close(self._duplicates.pop(inode))


def _refuse_abstract(unix: _socket.socket) -> None:
    """Refuse abstract sockets: another program's clients might connect. Raises OSError."""
    if isinstance(unix.getsockname(), bytes):
        unix.shutdown(_socket.SHUT_RDWR)
        raise PermissionError(EPERM, "an abstract name")


def _remember(inodes: dict[int, None], inode: int) -> None:
    """Add an inode, and forget the oldest beyond the limit (a dict keeps its order)."""
    inodes[inode] = None
    if len(inodes) > MOST_REMEMBERED:
        del inodes[next(iter(inodes))]


def _list_other_sockets() -> set[int]:
    """The inodes of the sockets that other visible processes have open."""
    inodes: set[int] = set()
    for pid in _list_folder("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            folder = f"/proc/{pid}/fd"
            links = (_read_link(f"{folder}/{name}") for name in _list_folder(folder))
            inodes.update(int(link[8:-1]) for link in links if link.startswith("socket:["))
    return inodes


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
