"""Socket addresses as bytes: what they name, and whether the tree may connect there."""
# ruff: noqa: PTH115

import _socket
import os
import stat

AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6 = 0, 1, 2, 10
EPERM, EINVAL = 1, 22
MAPPED = bytes(10) + b"\xff\xff"
LOCALHOST4, LOCALHOST6 = b"\x7f\0\0\1", bytes(15) + b"\1"
LOOPBACK = (LOCALHOST4, LOCALHOST6, bytes(4), bytes(16))
"""Addresses that connect to loopback: a wildcard does too. Not all of 127/8, as 127.0.0.11 is
Docker's DNS server."""


def read_address_family(raw: bytes) -> int:
    """The family of an address."""
    return int.from_bytes(raw[:2], "little")


def parse_host_and_port(raw: bytes) -> tuple[bytes, int]:
    """The IP address (IPv4 in IPv6 unwrapped) and the port. Raises OSError."""
    port = int.from_bytes(raw[2:4], "big")
    if read_address_family(raw) == AF_INET and len(raw) >= 16:
        return raw[4:8], port
    if read_address_family(raw) == AF_INET6 and len(raw) >= 28:
        host = raw[8:24]
        return (host[12:] if host.startswith(MAPPED) else host), port
    raise OSError(EINVAL, "not an internet address")


def format_address(host: bytes, port: int) -> str:
    """``127.0.0.1 port 80``."""
    return f"{_socket.inet_ntop(AF_INET if len(host) == 4 else AF_INET6, host)} port {port}"


def build_bind_address(raw: bytes, *, only_v6: bool) -> bytes:
    """The address to bind to: a wildcard becomes loopback, so that no outsider can connect."""
    if read_address_family(raw) == AF_INET and raw[4:8] == bytes(4):
        return raw[:4] + LOCALHOST4 + raw[8:]
    if read_address_family(raw) == AF_INET6 and raw[8:24] == bytes(16):
        return raw[:8] + (LOCALHOST6 if only_v6 else MAPPED + LOCALHOST4) + raw[24:]
    return raw


def resolve_unix_path(raw: bytes, thread: int) -> str:
    """The path of a UNIX address, "" for an abstract one. Raises OSError."""
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
    fd = os.open(root, os.O_PATH | os.O_CLOEXEC)
    for part in path[len(root) + 1 :].split("/"):
        try:
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    status = os.fstat(fd)
    # A second name could be a hard link to a socket outside.
    if not stat.S_ISSOCK(status.st_mode) or status.st_nlink != 1:
        os.close(fd)
        raise PermissionError(EPERM, "not a socket of the tree")
    return fd


def to_pinned(fd: int) -> bytes:
    """The address of a pinned socket."""
    return AF_UNIX.to_bytes(2, "little") + b"/proc/self/fd/%d\0" % fd
