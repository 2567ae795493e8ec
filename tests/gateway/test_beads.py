"""A bead at the gateway: opened, closed, cut off."""

import contextlib
import socket
from collections.abc import Iterator

from tests.gateway.counting import read_until_seen, request_bytes
from tests.gateway.tools import (
    MODEL,
    STREAM,
    Client,
    RawEndpoint,
    client,
    delta,
    events,
    hang,
    started,
)
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import say


def test_the_placeholder_of_a_closed_bead_is_refused() -> None:
    with ModelEndpoint([say("Hi"), say("Ho")]) as endpoint, client(endpoint.url) as agent:
        first = agent.ticket
        assert agent.ask()[0] == 200
        agent.gateway.close_bead(first)
        assert agent.ask()[0] == 401
        agent.ticket = agent.gateway.open_bead("verify", {MODEL}, budget_usd=1)
        assert agent.ask()[0] == 200
        assert agent.ask(x_api_key=first.placeholder)[0] == 401
        assert [note.partition(",")[2] for note in agent.notes] == [
            " verify: no running bead has this key"
        ]
    assert len(endpoint.messages) == 2


def play(connection: socket.socket, number: int) -> None:
    """An answer that begins and has no end."""
    connection.sendall(STREAM + events(started(500), delta("x" * 300)))
    hang(connection)


@contextlib.contextmanager
def asking(agent: Client) -> Iterator[socket.socket]:
    """A connection on which the answer has begun."""
    with socket.create_connection(("127.0.0.1", agent.port), 60) as connection:
        connection.sendall(request_bytes(agent, stream=True))
        read_until_seen(connection, b"xxx")
        yield connection


def read_to_end(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass


def test_the_end_of_a_bead_ends_its_requests() -> None:
    with (
        RawEndpoint(play) as endpoint,
        client(endpoint.url) as agent,
        asking(agent) as connection,
    ):
        usage = agent.gateway.close_bead(agent.ticket)
        assert (usage.tokens, usage.assumed_tokens) == (500 + 2000, 1999)
        read_to_end(connection)
    assert len(endpoint.requests) == 1


def test_stopping_waits_for_no_answer() -> None:
    with RawEndpoint(play) as endpoint, contextlib.ExitStack() as stack:
        with client(endpoint.url) as agent:
            connections = [stack.enter_context(asking(agent)) for _ in range(5)]
        for connection in connections:
            read_to_end(connection)
    assert len(endpoint.requests) == 5
