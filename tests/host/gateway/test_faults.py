"""A model endpoint that is overloaded, refuses, hangs, breaks off or sends anything at all."""

import http.client
import json
import socket
import threading
import time

import pytest

from gitlab_nightshift.host.gateway import Limits
from gitlab_nightshift.records import Usage
from tests.host.gateway.tools import (
    QUICK,
    STREAM,
    RawEndpoint,
    about,
    client,
    delta,
    ended,
    events,
    head,
    message,
    started,
    whole,
)
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import Turn, error, say


@pytest.mark.parametrize("status", [429, 502, 503, 529])
def test_overload_is_waited_for(status: int) -> None:
    turns = [error(status, "overloaded_error"), error(status), say("Hi")]
    with ModelEndpoint(turns) as endpoint, client(endpoint.url) as agent:
        assert agent.ask()[0] == 200
        assert (agent.gateway.unusable, agent.notes) == ("", [])
        assert agent.gateway.usage(agent.ticket).tokens == 1100
    assert len(endpoint.messages) == 3


def test_retry_after_is_kept() -> None:
    turns = [error(429, retry_after="1"), say("Hi")]
    with ModelEndpoint(turns) as endpoint, client(endpoint.url) as agent:
        began = time.monotonic()
        assert agent.ask()[0] == 200
        assert time.monotonic() - began > 1


def test_overload_has_a_deadline_and_is_handed_on_once() -> None:
    script = lambda _: error(529, "overloaded_error", "Overloaded", retry_after="1")  # noqa: E731
    with ModelEndpoint(script) as endpoint, client(endpoint.url) as agent:
        began = time.monotonic()
        status, headers, raw = agent.fetch(message(), "/v1/messages", "POST", 10)
        assert (status, json.loads(raw)["error"]["message"]) == (529, "Overloaded")
        assert (headers["x-should-retry"], headers["retry-after"]) == ("false", "1")
        assert 1 < time.monotonic() - began < 3
        assert agent.gateway.unusable == "the model endpoint is overloaded (HTTP 529)"
        asked, began = len(endpoint.messages), time.monotonic()
        assert agent.ask()[0] == 529
        assert time.monotonic() - began < 0.5
        assert len(endpoint.messages) == asked + 1
        assert agent.gateway.usage(agent.ticket) == Usage(0.0, 0)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_at_once(status: int) -> None:
    with ModelEndpoint(lambda _: error(status)) as endpoint, client(endpoint.url) as agent:
        answer = agent.ask()
        assert answer[0] == status
        assert answer[1]["error"]["message"] == "the model endpoint refuses the key"
        assert agent.gateway.unusable == f"the model endpoint refuses the key (HTTP {status})"
    assert len(endpoint.messages) == 1


@pytest.mark.parametrize("status", [400, 404, 413, 500])
def test_other_errors_are_handed_on(status: int) -> None:
    with (
        ModelEndpoint(lambda _: error(status, "x_error", "so it is")) as endpoint,
        client(endpoint.url) as agent,
    ):
        code, answer = agent.ask()
        assert (code, answer["error"]["message"]) == (status, "so it is")
        assert agent.gateway.unusable == ""
    assert len(endpoint.messages) == 1


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with client(f"http://127.0.0.1:{port}") as agent:
        status, answer = agent.ask()
        assert (status, answer["error"]["type"]) == (502, "api_error")
        assert "cannot be reached" in agent.gateway.unusable
        assert agent.gateway.usage(agent.ticket) == Usage(0.0, 0)


def test_a_connection_that_breaks_before_the_answer_is_tried_again() -> None:
    def play(connection: socket.socket, number: int) -> None:
        if number > 2:
            whole(200, {"usage": {"input_tokens": 5, "output_tokens": 5}})(connection, number)

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        assert agent.ask()[0] == 200
        assert agent.gateway.usage(agent.ticket).tokens == 10
    assert len(endpoint.requests) == 3


def test_an_endpoint_that_hangs() -> None:
    limits = Limits(silent_s=0.5, retry_s=0.3)
    with (
        ModelEndpoint([Turn(hang=True)]) as endpoint,
        client(endpoint.url, limits=limits) as agent,
    ):
        began = time.monotonic()
        assert agent.ask()[0] == 502
        assert time.monotonic() - began < 2
    assert len(endpoint.messages) == 1


def test_a_stream_that_stalls_is_broken_off_and_billed_as_seen() -> None:
    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM + events(started(1000), delta("x" * 600)))
        time.sleep(2)

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        with pytest.raises((OSError, http.client.HTTPException)):
            agent.ask(message(stream=True))
        cost = (1000 * 3 + 200 * 15) / 1_000_000
        assert agent.gateway.usage(agent.ticket) == Usage(about(cost), 1200)
        assert len(agent.notes) == 1
        assert "cut off" in agent.notes[0]
    assert len(endpoint.requests) == 1


def test_a_stream_that_breaks_is_not_tried_again() -> None:
    import struct

    def play(connection: socket.socket, number: int) -> None:
        start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        connection.sendall(start + b"Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n")
        time.sleep(0.1)
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        with pytest.raises((OSError, http.client.HTTPException)):
            agent.ask(message(stream=True))
        # nothing told its usage: the input as it was reserved
        assert 0 < (agent.gateway.usage(agent.ticket).tokens or 0) < 200
    assert len(endpoint.requests) == 1


GARBAGE = {
    "no http": b"\x00\x01garbage\r\n\r\n",
    "a status": b"HTTP/1.1 999 X\r\n\r\n",
    "a redirect": head(307, "text/plain", "Location: http://evil.example/"),
    "a created": head(201, "application/json") + b"{}",
    "a switch": head(101, "text/plain", "Upgrade: h2c", "Connection: Upgrade"),
    "packed": head(200, "application/json", "Content-Encoding: gzip") + b"\x1f\x8b",
    "long headers": head(200, "text/plain", "X-Long: " + "a" * 100_000),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_answers_that_are_none(name: str) -> None:
    with (
        RawEndpoint(lambda connection, number: connection.sendall(GARBAGE[name])) as endpoint,
        client(endpoint.url, limits=Limits(silent_s=0.5, retry_s=0.2)) as agent,
    ):
        status, answer = agent.ask()
        assert (status, answer["type"]) == (502, "error")
        assert agent.gateway.usage(agent.ticket) == Usage(0.0, 0)


USAGES = [
    b"data: {" + b"[" * 100_000 + b"\n\n",
    b'data: {"usage": {"input_tokens": "many", "output_tokens": -5}}\n\n',
    b'data: {"usage": [1], "message": {"usage": null}, "response": 5, "choices": [5, {}]}\n\n',
    b'data: {"usage": {"input_tokens": true, "output_tokens": 1e400}}\n\n',
    b'data: {"delta": [[{"tool_calls": [5, {"function": 7}]}]], "choices": null}\n\n',
    b"data: \xff\xfe\n\n\n\n:\nid: 5\nretry: x\n",
    b"\x00" * 1000,
]


@pytest.mark.parametrize("number", range(len(USAGES)))
def test_figures_that_are_none(number: int) -> None:
    """An answer that tells nothing sensible of its usage is billed as its input was reserved."""
    raw = STREAM + USAGES[number]
    with (
        RawEndpoint(lambda connection, number: connection.sendall(raw)) as endpoint,
        client(endpoint.url) as agent,
    ):
        status, _, body = agent.fetch(message(stream=True), "/v1/messages", "POST", 5)
        assert (status, body) == (200, USAGES[number])
        assert 0 < (agent.gateway.usage(agent.ticket).tokens or 0) < 200


def test_requests_side_by_side() -> None:
    """An endpoint that waits for one request does not hold up the others."""
    first = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        if number == 1:
            assert first.wait(5)
        connection.sendall(STREAM + events(started(1), ended(1)))

    with RawEndpoint(play) as endpoint, client(endpoint.url, limits=QUICK) as agent:
        slow = threading.Thread(target=agent.ask)
        slow.start()
        while not endpoint.requests:
            time.sleep(0.01)
        assert agent.ask()[0] == 200
        first.set()
        slow.join(5)
        assert agent.gateway.usage(agent.ticket).tokens == 4


def test_a_redirect_is_not_followed() -> None:
    with RawEndpoint(whole(200, {})) as other:
        for status in (301, 307, 308):
            there = f"Location: {other.url}/v1/messages"
            with (
                RawEndpoint(whole(status, {}, there)) as endpoint,
                client(endpoint.url) as agent,
            ):
                assert agent.ask()[0] == 502
    assert other.requests == []


def test_an_agent_that_goes_away_ends_its_request() -> None:
    """Before the answer has begun: the endpoint is let go, and the input is owed."""
    gone = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        connection.settimeout(5)
        if connection.recv(1) == b"":
            gone.set()

    with RawEndpoint(play) as endpoint, client(endpoint.url, limits=Limits()) as agent:
        with pytest.raises(TimeoutError):
            agent.ask(timeout_s=0.3)
        assert gone.wait(2)
        assert 0 < (agent.gateway.close_bead(agent.ticket).tokens or 0) < 200
    assert len(endpoint.requests) == 1


def test_a_long_answer_is_not_an_idle_connection() -> None:
    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM + events(started(1)))
        time.sleep(0.8)
        connection.sendall(events(ended(1)))

    limits = Limits(idle_s=0.3)
    with RawEndpoint(play) as endpoint, client(endpoint.url, limits=limits) as agent:
        assert "message_delta" in agent.ask(message(stream=True))[1]
