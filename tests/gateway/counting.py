"""An endpoint that counts the cost of its answers, and an agent that hangs up on it."""

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
    json_answer,
    message,
    started,
)
from tests.support.trees import wait_for
from tests.support.turns import JsonObject

INPUT_TOKENS = 400


class Provider:
    """Produces each answer up to its limit, whether it is read or not, mostly as hidden thinking.

    It sends the head and the first words, and the rest once ``go_on`` is set.
    """

    endpoint: RawEndpoint

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.produced_usd = 0.0
        self.finished = 0
        self._lock = threading.Lock()

    def play(self, connection: socket.socket, number: int) -> None:
        body = json.loads(self.endpoint.requests[number - 1].partition(b"\r\n\r\n")[2])
        limit = body["max_tokens"]
        with self._lock:
            self.produced_usd += KNOWN_RATES[body["model"]].compute_cost(
                Tokens(input=INPUT_TOKENS, output=limit)
            )
        with contextlib.suppress(OSError):
            self._answer(connection, number, limit, stream=body.get("stream") is True)
        with self._lock:
            self.finished += 1

    def _answer(self, connection: socket.socket, number: int, limit: int, *, stream: bool) -> None:
        if stream:
            connection.sendall(STREAM + events(started(INPUT_TOKENS), delta("Well")))
        assert self.go_on.wait(60)
        if stream:
            ping: JsonObject = {"type": "ping"}
            connection.sendall(events(*[ping] * 50, delta("."), ended(limit)))
        else:
            usage = {"input_tokens": INPUT_TOKENS, "output_tokens": limit}
            json_answer(200, {"usage": usage})(connection, number)


@contextlib.contextmanager
def served(provider: Provider, **options: Any) -> Iterator[Client]:
    """A gateway for this provider, with one open bead."""
    with (
        RawEndpoint(provider.play) as provider.endpoint,
        client(provider.endpoint.url, **options) as agent,
    ):
        try:
            yield agent
        finally:
            provider.go_on.set()


def request_bytes(agent: Client, **body: object) -> bytes:
    """A request as it is sent."""
    raw = json.dumps(message(**body)).encode()
    head = (
        "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"X-Api-Key: {agent.ticket.placeholder}\r\nContent-Length: {len(raw)}\r\n\r\n"
    )
    return head.encode() + raw


HangUp = Callable[[socket.socket], None]


def read_until_seen(connection: socket.socket, until: bytes) -> None:
    received = b""
    while until not in received:
        chunk = connection.recv(65536)
        assert chunk, received
        received += chunk


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


def hang_up(agent: Client, provider: Provider, leave: HangUp, data: bytes) -> socket.socket:
    """Send a request, and leave once the endpoint has it."""
    before = len(provider.endpoint.requests)
    connection = socket.create_connection(("127.0.0.1", agent.port), 60)
    connection.sendall(data)
    wait_for(lambda: len(provider.endpoint.requests) > before, "the endpoint has the request")
    leave(connection)
    return connection


def usd(usage: Usage) -> float:
    assert usage.cost_usd is not None
    return usage.cost_usd


def is_exhausted(agent: Client) -> bool:
    return agent.gateway.is_exhausted(agent.ticket)


def has_no_connection(agent: Client) -> bool:
    connections = agent.gateway.inner._connections
    return connections is not None and not connections._open


def has_no_request(agent: Client) -> bool:
    """True once no request of a bead is pending."""
    return not agent.gateway.inner._open_requests
