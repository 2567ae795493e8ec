"""UDP sockets that cannot send: build tools make them, bind them and ask them for interfaces."""

from __future__ import annotations

import _socket

EAFNOSUPPORT = 97
DATAGRAM = 2
BIND_TO_DEVICE = 25

_seen_mute: list[bool] = []


def silence(made: _socket.socket) -> None:
    """Shut a UDP socket for sending: the kernel refuses every way to send before it looks where to.

    The kernel answers that the socket is not connected, and shuts it all the same. That is tried
    on one before the first is given out. Raises OSError where it can send.
    """
    if not _seen_mute:
        trial = _socket.socket(2, DATAGRAM)
        _shut(trial)
        _seen_mute.append(_cannot_send(trial))
        trial.close()
    if not _seen_mute[0]:
        made.close()
        raise OSError(EAFNOSUPPORT, "a UDP socket could send")
    made.setsockopt(1, BIND_TO_DEVICE, b"lo\0")  # whatever a race may bind it to later
    _shut(made)


def _shut(udp: _socket.socket) -> None:
    try:
        udp.shutdown(1)
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
