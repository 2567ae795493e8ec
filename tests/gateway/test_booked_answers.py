"""An answer is billed before the agent can have read its end, and send the next request."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from gitlab_nightshift.gateway.limits import GatewayLimits
from tests.gateway.counting import read_until_seen, request_bytes
from tests.gateway.tools import (
    MODEL,
    STREAM,
    Client,
    RawEndpoint,
    client,
    ended,
    events,
    head,
    message,
    started,
)
from tests.support.turns import JsonObject

BUDGET = 10_000
"""Tokens: too few for an answer of 1,024 tokens after one that has used 9,500."""
MESSAGES = ("ANTHROPIC_API_KEY", "/v1/messages", message())
CHAT = ("OPENAI_API_KEY", "/v1/chat/completions", message())
REQUEST = {"model": MODEL, "input": "Hello", "max_output_tokens": 2000}
RESPONSES = ("OPENAI_API_KEY", "/v1/responses", REQUEST)
USAGE = {"input_tokens": 9000, "output_tokens": 500}
CHAT_USAGE = {"prompt_tokens": 9000, "completion_tokens": 500}
COMPLETED: JsonObject = {"type": "response.completed", "response": {"usage": USAGE}}
JSON = head(200, "application/json")


def write_chunks(*rows: JsonObject) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(row).encode() for row in rows)


STREAMS = {
    "messages": (MESSAGES, events(started(9000), ended(500)), b"message_delta"),
    "responses": (RESPONSES, events(COMPLETED), b"response.completed"),
    "chat": (
        CHAT,
        write_chunks(
            {"choices": [{"finish_reason": "stop"}]}, {"choices": [], "usage": CHAT_USAGE}
        ),
        b"prompt_tokens",
    ),
}
UNSTREAMED = {
    "messages": (MESSAGES, {"type": "message", "usage": USAGE}),
    "responses": (RESPONSES, {"object": "response", "usage": USAGE}),
    "chat": (CHAT, {"choices": [{"finish_reason": "stop"}], "usage": CHAT_USAGE}),
}


@contextlib.contextmanager
def read_until(agent: Client, path: str, body: JsonObject, last: bytes) -> Iterator[socket.socket]:
    """Send a request, read until ``last``, and keep the connection open."""
    raw = request_bytes(agent, **body).replace(b"/v1/messages", path.encode(), 1)
    with socket.create_connection(("127.0.0.1", agent.port), 60) as connection:
        connection.sendall(raw)
        read_until_seen(connection, last)
        yield connection


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_billed_while_the_endpoint_keeps_its_connection(name: str) -> None:
    (variable, path, body), answer, last = STREAMS[name]
    asked_again = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM + answer)
        asked_again.wait(60)

    with (
        RawEndpoint(play) as endpoint,
        client(endpoint.url, variable=variable, budget_usd=None, budget_tokens=BUDGET) as agent,
    ):
        with read_until(agent, path, {**body, "stream": True}, last):
            status, refusal = agent.ask(body, path)
        asked_again.set()
    assert (status, "budget is reached" in refusal["error"]["message"]) == (400, True)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("name", UNSTREAMED)
def test_an_answer_without_a_stream_is_billed_before_it_is_sent(name: str) -> None:
    (variable, path, body), answer = UNSTREAMED[name]
    asked_again = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        if number > 1:
            asked_again.set()
        connection.sendall(JSON + json.dumps(answer).encode())
        asked_again.wait(2)

    with (
        RawEndpoint(play) as endpoint,
        client(endpoint.url, variable=variable, budget_usd=None, budget_tokens=BUDGET) as agent,
        read_until(agent, path, body, b"}}"),
    ):
        status, _ = agent.ask(body, path)
    assert (status, len(endpoint.requests)) == (400, 1)


@pytest.mark.parametrize("rest", [b"", b"no chunk\r\n"])
def test_an_answer_that_breaks_off_is_billed_before_the_agent_sees_it(rest: bytes) -> None:
    chunked = STREAM.replace(b"Connection: close", b"Transfer-Encoding: chunked")
    start, start_read = events(started(9000)), threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(chunked + b"%x\r\n%s\r\n" % (len(start), start))
        assert start_read.wait(60)
        connection.sendall(rest)

    limits = GatewayLimits(silent_s=2)
    with (
        RawEndpoint(play) as endpoint,
        client(endpoint.url, budget_usd=None, budget_tokens=BUDGET, limits=limits) as agent,
        read_until(agent, "/v1/messages", message(stream=True), b"message_start") as connection,
    ):
        start_read.set()
        with contextlib.suppress(ConnectionError):
            while connection.recv(65536):
                continue
        assert agent.ask()[0] == 400
    assert len(endpoint.requests) == 1
