"""UDP sockets that cannot send: build tools bind them and ask them for interfaces."""

from __future__ import annotations

import _socket

EAFNOSUPPORT = 97
DATAGRAM = 2
BIND_TO_DEVICE = 25

_trial_results: list[bool] = []


def silence(udp: _socket.socket) -> None:
    """Shut down a UDP socket for sending: the kernel then refuses every send, to any address.

    ``shutdown`` of an unconnected socket reports ENOTCONN but takes effect all the same. This is
    tried on a socket of our own before the first one is handed out. Raises OSError if it can send.
    """
    if not _trial_results:
        trial = _socket.socket(_socket.AF_INET, DATAGRAM)
        _shut(trial)
        _trial_results.append(_cannot_send(trial))
        trial.close()
    if not _trial_results[0]:
        udp.close()
        raise OSError(EAFNOSUPPORT, "a UDP socket could send")
    # Receiving stays possible: even if a race binds it to another address, only from loopback.
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
