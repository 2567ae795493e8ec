"""The messages between the gateway's process and its user: one JSON object each, of bounded size.

The socket keeps message boundaries (``SOCK_SEQPACKET``, unix(7)); a message may carry a listening
socket.
"""

import json
import socket
from typing import Any, NoReturn

LONGEST = 64 * 1024
"""Bytes of a message."""


class BadMessage(ValueError):
    """A message that no honest peer sends: it ends the conversation."""


def create_socket_pair() -> tuple[socket.socket, socket.socket]:
    """The gateway's end and its user's end; a child inherits neither unless it is passed on."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(link: socket.socket, message: dict[str, Any], handed: socket.socket | None = None) -> None:
    """Send a message. Raises OSError if the peer is gone or does not read."""
    data = json.dumps(message, allow_nan=False).encode()
    socket.send_fds(link, [data], [handed.fileno()] if handed else [])


def receive(link: socket.socket) -> tuple[dict[str, Any], socket.socket | None]:
    """Receive the next message. Raises EOFError at the end, BadMessage, OSError."""
    data, descriptors, flags, _ = socket.recv_fds(link, LONGEST, 1)
    handed = [socket.socket(fileno=each) for each in descriptors]
    # A longer message, or more descriptors, would be cut silently (recvmsg(2)).
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise BadMessage("too long")
    if not data:
        raise EOFError
    return read_object(data), next(iter(handed), None)


def read_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises BadMessage."""
    try:
        value = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise BadMessage("no JSON") from None
    if not isinstance(value, dict):
        raise BadMessage("no object")
    return value


def _refuse(name: str) -> NoReturn:
    raise BadMessage(f"{name} is not allowed")
