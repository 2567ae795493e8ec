"""An endpoint that counts what it made, and an agent that hangs up on it."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

from gitlab_nightshift.gateway.prices import KNOWN_RATES, Tokens
from gitlab_nightshift.records.usage import Usage
from tests.gateway.tools import (
    STREAM,
    Client,
    RawEndpoint,
    client,
    delta,
    ended,
    events,
    message,
    started,
    whole,
)
from tests.support.trees import wait_for
from tests.support.turns import JsonObject

SENT = 400
"""Tokens of input of each request."""


class Provider:
    """Makes each answer to its limit, whoever reads it, most of it as thinking that nobody sees.

    ``go_on`` lets it make the rest, once it has sent the head and the first words.
    """

    endpoint: RawEndpoint

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.made_usd = 0.0
        self.finished = 0
        self._lock = threading.Lock()

    def play(self, connection: socket.socket, number: int) -> None:
        body = json.loads(self.endpoint.requests[number - 1].partition(b"\r\n\r\n")[2])
        limit = body["max_tokens"]
        with self._lock:
            self.made_usd += KNOWN_RATES[body["model"]].compute_cost(
                Tokens(input=SENT, output=limit)
            )
        with contextlib.suppress(OSError):
            self._answer(connection, number, limit, stream=body.get("stream") is True)
        with self._lock:
            self.finished += 1

    def _answer(self, connection: socket.socket, number: int, limit: int, *, stream: bool) -> None:
        if stream:
            connection.sendall(STREAM + events(started(SENT), delta("Well")))
        assert self.go_on.wait(60)
        if stream:
            ping: JsonObject = {"type": "ping"}
            connection.sendall(events(*[ping] * 50, delta("."), ended(limit)))
        else:
            usage = {"input_tokens": SENT, "output_tokens": limit}
            whole(200, {"usage": usage})(connection, number)


@contextlib.contextmanager
def served(provider: Provider, **bead: Any) -> Iterator[Client]:
    """A gateway before this provider, with one bead open."""
    with (
        RawEndpoint(provider.play) as provider.endpoint,
        client(provider.endpoint.url, **bead) as one,
    ):
        try:
            yield one
        finally:
            provider.go_on.set()


def request_bytes(agent: Client, **body: object) -> bytes:
    """A request as it stands on the wire."""
    raw = json.dumps(message(**body)).encode()
    head = (
        "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"X-Api-Key: {agent.ticket.placeholder}\r\nContent-Length: {len(raw)}\r\n\r\n"
    )
    return head.encode() + raw


HangUp = Callable[[socket.socket], None]


def read_until_seen(connection: socket.socket, until: bytes) -> None:
    found = b""
    while until not in found:
        chunk = connection.recv(65536)
        assert chunk, found
        found += chunk


def at_once(connection: socket.socket) -> None:
    connection.close()


def after_the_head(connection: socket.socket) -> None:
    read_until_seen(connection, b"200 OK")
    connection.close()


def in_the_stream(connection: socket.socket) -> None:
    read_until_seen(connection, b"Well")
    connection.close()


def by_a_reset(connection: socket.socket) -> None:
    read_until_seen(connection, b"Well")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def by_half(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


HANG_UPS = (at_once, after_the_head, in_the_stream, by_a_reset, by_half)


def hang_up(agent: Client, provider: Provider, way: HangUp, data: bytes) -> socket.socket:
    """Ask, and leave once the endpoint is at work."""
    before = len(provider.endpoint.requests)
    connection = socket.create_connection(("127.0.0.1", agent.port), 60)
    connection.sendall(data)
    wait_for(lambda: len(provider.endpoint.requests) > before, "the endpoint is asked")
    way(connection)
    return connection


def usd(usage: Usage) -> float:
    assert usage.cost_usd is not None
    return usage.cost_usd


def spent(agent: Client) -> bool:
    return agent.gateway.is_exhausted(agent.ticket)


def nobody_asks(agent: Client) -> bool:
    connections = agent.gateway.inner._connections
    return connections is not None and not connections._open


def at_rest(agent: Client) -> bool:
    """True once no request of a bead is on its way."""
    return not agent.gateway.inner._open_requests
