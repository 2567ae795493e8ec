"""Sockets for :mod:`.egress_filter`: the addresses, the listeners of a port, and UDP sockets that
cannot send.
"""
# ruff: noqa: PTH115, PTH123

from __future__ import annotations

import _socket
import os
import stat
import struct

# --- addresses ------------------------------------------------------------------------------------


AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6 = 0, 1, 2, 10
EPERM, EINVAL = 1, 22
MAPPED = bytes(10) + b"\xff\xff"
"""The beginning of an IPv6 address that contains an IPv4 one (RFC 4291, 2.5.5.2)."""
LOCALHOST4, LOCALHOST6 = b"\x7f\0\0\1", bytes(15) + b"\1"
LOOPBACK = (LOCALHOST4, LOCALHOST6, bytes(4), bytes(16))
"""Addresses that connect to loopback, which include the wildcards. Not all of 127/8: 127.0.0.11 is
Docker's DNS server."""


def read_address_family(raw: bytes) -> int:
    """The family of an address."""
    return int.from_bytes(raw[:2], "little")


def parse_host_and_port(raw: bytes) -> tuple[bytes, int]:
    """The IP address (IPv4 if it is mapped to IPv6) and the port. Raises OSError."""
    port = int.from_bytes(raw[2:4], "big")
    if read_address_family(raw) == AF_INET and len(raw) >= 16:
        return raw[4:8], port
    if read_address_family(raw) == AF_INET6 and len(raw) >= 28:
        host = raw[8:24]
        return (host[12:] if host.startswith(MAPPED) else host), port
    raise OSError(EINVAL, "not an internet address")


def format_address(host: bytes, port: int) -> str:
    """An address for a report: ``127.0.0.1 port 80``."""
    return f"{_socket.inet_ntop(AF_INET if len(host) == 4 else AF_INET6, host)} port {port}"


def build_bind_address(raw: bytes, *, only_v6: bool) -> bytes:
    """The address to bind to: a wildcard becomes loopback, so that no outsider can connect."""
    if read_address_family(raw) == AF_INET and raw[4:8] == bytes(4):
        return raw[:4] + LOCALHOST4 + raw[8:]
    if read_address_family(raw) == AF_INET6 and raw[8:24] == bytes(16):
        return raw[:8] + (LOCALHOST6 if only_v6 else MAPPED + LOCALHOST4) + raw[24:]
    return raw


def resolve_unix_path(raw: bytes, thread: int) -> str:
    """The path of a thread's UNIX address, "" for an abstract one. Raises OSError."""
    path = os.fsdecode(raw[2:].split(b"\0")[0])
    if path and not path.startswith("/"):
        path = f"{os.readlink(f'/proc/{thread}/cwd')}/{path}"
    return path


def pin_socket(path: str, roots: list[str]) -> int:
    """A descriptor of the socket at ``path``, which must lie below one of ``roots``.

    No link is followed, and no later rename changes what the descriptor names. Raises OSError.
    """
    path = os.path.normpath(path)
    root = next((root for root in roots if path.startswith(root + "/")), None)
    if root is None:
        raise PermissionError(EPERM, "outside")
    # Name by name: O_NOFOLLOW is about the last one only (open(2)).
    fd = os.open(root, os.O_PATH | os.O_CLOEXEC)
    for name in path[len(root) + 1 :].split("/"):
        folder = fd
        try:
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
    status = os.fstat(fd)
    # A second name could be a hard link to a socket outside.
    if not stat.S_ISSOCK(status.st_mode) or status.st_nlink != 1:
        os.close(fd)
        raise PermissionError(EPERM, "not a socket of the tree")
    return fd


def build_pinned_address(fd: int) -> bytes:
    """The address of a pinned socket."""
    return AF_UNIX.to_bytes(2, "little") + b"/proc/self/fd/%d\0" % fd


# --- listeners ------------------------------------------------------------------------------------


# sock_diag(7), netlink(7)
NETLINK, SOCK_DIAG, BY_FAMILY = 16, 4, 20
REQUEST_DUMP = 0x301
LISTEN_STATE = 10
DONE, ERROR = 3, 2


def find_listeners(port: int) -> set[int]:
    """The inodes of all sockets of this network namespace that listen on a port. sock_diag takes
    20 µs, reading ``/proc/net/tcp`` 7 ms."""
    try:
        return _ask_kernel(port)
    except OSError:
        return _read_proc(port)


def _ask_kernel(port: int) -> set[int]:
    inodes: set[int] = set()
    diag = _socket.socket(NETLINK, _socket.SOCK_RAW, SOCK_DIAG)
    try:
        for family in (AF_INET, AF_INET6):
            diag.send(_build_request(family, port))
            while _read_answers(diag.recv(1 << 16), port, inodes):
                pass
    finally:
        diag.close()
    return inodes


def _build_request(family: int, port: int) -> bytes:
    header = struct.pack("=IHHII", 72, BY_FAMILY, REQUEST_DUMP, 0, 0)
    # struct inet_diag_req_v2; 72 bytes with the header (struct nlmsghdr)
    query = struct.pack("=BBBBI", family, _socket.IPPROTO_TCP, 0, 0, 1 << LISTEN_STATE)
    return header + query + port.to_bytes(2, "big") + bytes(46)


def _read_answers(data: bytes, port: int, inodes: set[int]) -> bool:
    """Add the inodes of one answer; True if another one follows. Raises OSError."""
    while data:
        length, kind = struct.unpack_from("=IH", data)  # struct nlmsghdr
        if kind == ERROR:
            number = -struct.unpack_from("=i", data, 16)[0]
            raise OSError(number, os.strerror(number))
        if kind == DONE:
            return False
        # In struct inet_diag_msg, after the header: the local port at 4, the inode at 68.
        if data[20:22] == port.to_bytes(2, "big"):
            inodes.add(struct.unpack_from("=I", data, 84)[0])
        data = data[(length + 3) & ~3 :]
    return True


def _read_proc(port: int) -> set[int]:
    inodes: set[int] = set()
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", "rb") as table:
            for line in table.read().splitlines()[1:]:
                fields = line.split()
                # state 0A is TCP_LISTEN (proc_pid_net(5))
                if fields[3] == b"0A" and int(fields[1].rpartition(b":")[2], 16) == port:
                    inodes.add(int(fields[9]))
    return inodes


# --- UDP sockets that cannot send -----------------------------------------------------------------


EAFNOSUPPORT = 97
DATAGRAM = 2
BIND_TO_DEVICE = 25

_trial_results: list[bool] = []
"""One entry once the trial is made: True if a socket that is shut down cannot send."""


def disable_sending(udp: _socket.socket) -> None:
    """Shut down a UDP socket for sending: the kernel then refuses every send, to any address.
    Raises OSError if this kernel does not."""
    # shutdown of an unconnected socket reports ENOTCONN, but takes effect all the same: that is
    # tried on a socket of our own before the first one is handed out.
    if not _trial_results:
        trial = _socket.socket(_socket.AF_INET, DATAGRAM)
        _shut(trial)
        _trial_results.append(_cannot_send(trial))
        trial.close()
    if not _trial_results[0]:
        udp.close()
        raise OSError(EAFNOSUPPORT, "a UDP socket could send")
    # It can still receive: only from loopback, even if a race binds it to another address.
    udp.setsockopt(_socket.SOL_SOCKET, BIND_TO_DEVICE, b"lo\0")
    _shut(udp)


def _shut(udp: _socket.socket) -> None:
    try:
        udp.shutdown(_socket.SHUT_WR)
    except OSError:
        return  # ENOTCONN


def _cannot_send(udp: _socket.socket) -> bool:
    try:
        udp.sendto(b"", ("127.0.0.1", 9))
    except BrokenPipeError:
        return True
    except OSError:
        return False
    return False
