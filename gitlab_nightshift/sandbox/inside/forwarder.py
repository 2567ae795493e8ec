"""Connects a network namespace to the outside: each loopback port to one of our UNIX sockets.

One process, started by the launcher inside the sandbox: it has no more rights than the agent.
"""

from __future__ import annotations

import _socket
import _thread
import os

from .kernel import PR_SET_DUMPABLE, call_prctl, signals

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from typing import NoReturn

CHUNK = 1 << 16
BACKLOG = 512
SHUT_WRITING = 1


def start_forwarder(gates: list[tuple[int, str]], status: int) -> None:
    """Listen on every port, and leave a forwarding process behind. Raises OSError."""
    listeners = [(_create_listener(port), path) for port, path in gates]
    if (child := os.fork()) == 0:
        if os.fork() != 0:
            os._exit(0)
        # The reader of the report would wait for the last holder of the status pipe.
        os.close(status)
        call_prctl(PR_SET_DUMPABLE, 0)  # the agent has the same user, and could trace it (prctl(2))
        # Forked twice: the program must not find a child that it did not start.
        _forward(listeners)
    os.waitpid(child, 0)
    for listener, _ in listeners:
        listener.close()


def _create_listener(port: int) -> _socket.socket:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(BACKLOG)
    return listener


def _forward(listeners: list[tuple[_socket.socket, str]]) -> NoReturn:
    for number in (signals.SIGINT, signals.SIGTERM, signals.SIGHUP):
        signals.signal(number, signals.SIG_IGN)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for listener, path in listeners:
        _thread.start_new_thread(_accept, (listener, path))
    while True:
        signals.pause()


def _accept(listener: _socket.socket, path: str) -> None:
    while True:
        fd, _ = listener._accept()  # type: ignore[attr-defined]
        inner = _socket.socket(fileno=fd)
        try:
            outer = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            outer.connect(path)
        except OSError:
            continue  # the service is gone: drop the connection
        _thread.start_new_thread(_copy, (inner, outer))
        _thread.start_new_thread(_copy, (outer, inner))


def _copy(source: _socket.socket, target: _socket.socket) -> None:
    """Copy one direction of a connection; both sockets close once both directions have ended."""
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(SHUT_WRITING)  # only this direction: an answer may still come
    except OSError:
        _shut(source)
        _shut(target)


def _shut(end: _socket.socket) -> None:
    try:
        end.shutdown(_socket.SHUT_RDWR)
    except OSError:
        return
