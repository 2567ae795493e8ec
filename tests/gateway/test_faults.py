"""A model endpoint that is overloaded, refuses, hangs, breaks off or sends garbage."""

import http.client
import json
import socket
import struct
import threading
import time

import pytest

from gitlab_nightshift.gateway import forward
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.system.retry import Clock
from tests.gateway.tools import (
    MODEL,
    STREAM,
    RawEndpoint,
    about,
    client,
    delta,
    ended,
    events,
    hang,
    head,
    json_answer,
    message,
    started,
)
from tests.support.model_endpoint import ModelEndpoint
from tests.support.ports import refusing_port
from tests.support.trees import wait_for
from tests.support.turns import Turn, error, say


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the gateway would wait before each retry; its clock counts only these."""
    pauses: list[float] = []

    async def wait(self: forward.Retries, seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(forward.Retries, "wait", wait)
    monkeypatch.setattr(forward.Retries, "clock", Clock(now=lambda: sum(pauses)))
    return pauses


def test_overload_is_waited_for(pauses: list[float]) -> None:
    for status in (429, 502, 503, 529):
        pauses.clear()
        turns = [error(status, "overloaded_error"), error(status), say("Hi")]
        with ModelEndpoint(turns) as endpoint, client(endpoint.url) as agent:
            assert agent.ask()[0] == 200, status
            assert (agent.gateway.unusable, agent.notes) == ("", []), status
            assert agent.gateway.usage(agent.ticket).tokens == 1100, status
        assert len(endpoint.messages) == 3, status
        assert pauses == [pytest.approx(0.5, rel=0.25), pytest.approx(1, rel=0.25)], status


def test_retry_after_is_respected(pauses: list[float]) -> None:
    turns = [error(429, retry_after="7"), say("Hi")]
    with ModelEndpoint(turns) as endpoint, client(endpoint.url) as agent:
        assert agent.ask()[0] == 200
        waits = "model gateway, analyze: the model endpoint is overloaded (HTTP 429)"
        assert agent.notes == [f"{waits}; trying again in 7 s, for another 240 s at most"]
    assert pauses == [7]


@pytest.mark.parametrize(
    ("turn", "seconds"),
    [
        (error(429, retry_after_ms="2500"), 2.5),  # Azure
        (error(429, message="Please retry in 3.5s."), 3.5),  # Gemini
        (error(429, message="You exceeded your current quota", retry_after="7"), 7),
    ],
)
def test_other_ways_to_ask_for_a_pause_are_respected(
    pauses: list[float], turn: Turn, seconds: float
) -> None:
    with ModelEndpoint([turn, say("Hi")]) as endpoint, client(endpoint.url) as agent:
        assert agent.ask()[0] == 200
    assert pauses == [seconds]


def test_an_empty_account_is_final_and_quoted(pauses: list[float]) -> None:
    """It has the status of a rate limit, but waiting does not help."""
    quota = "You exceeded your current quota, please check your plan and billing details."
    with ModelEndpoint([error(429, message=quota)]) as endpoint, client(endpoint.url) as agent:
        status, answer = agent.ask()
        text = f"the model endpoint answered HTTP 429: {quota}"
        assert (status, answer["error"]["message"]) == (429, text)
        assert agent.gateway.unusable == text
        assert agent.gateway.usage(agent.ticket) == Usage(0.0, 0)
    assert (len(endpoint.messages), pauses) == (1, [])


def test_overload_has_a_deadline_and_is_passed_on_once(pauses: list[float]) -> None:
    script = lambda _: error(529, "overloaded_error", "Overloaded", retry_after="100")  # noqa: E731
    with ModelEndpoint(script) as endpoint, client(endpoint.url) as agent:
        status, headers, raw = agent.fetch(message(), "/v1/messages", "POST", 60)
        assert (status, json.loads(raw)["error"]["message"]) == (529, "Overloaded")
        assert (headers["x-should-retry"], headers["retry-after"]) == ("false", "100")
        assert (len(endpoint.messages), pauses) == (3, [100, 100])
        assert agent.gateway.unusable == "the model endpoint is overloaded (HTTP 529)"
        assert agent.ask()[0] == 529
        assert (len(endpoint.messages), pauses) == (4, [100, 100])
        assert agent.gateway.usage(agent.ticket) == Usage(0.0, 0)


def test_pauses_grow_to_a_bound(pauses: list[float]) -> None:
    with ModelEndpoint(lambda _: error(503)) as endpoint, client(endpoint.url) as agent:
        assert agent.ask()[0] == 503
    assert 200 < sum(pauses) < 240
    bounds = [min(0.5 * 2**turn, 30) for turn in range(len(pauses))]
    assert pauses == [pytest.approx(bound, rel=0.25) for bound in bounds]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_passed_on_at_once(status: int) -> None:
    with ModelEndpoint(lambda _: error(status)) as endpoint, client(endpoint.url) as agent:
        answered, answer = agent.ask()
        assert (answered, answer["error"]["message"]) == (
            status,
            "the model endpoint refused the key",
        )
        assert agent.gateway.unusable == f"the model endpoint refused the key (HTTP {status})"
    assert len(endpoint.messages) == 1


def test_other_errors_are_passed_on() -> None:
    statuses = (400, 404, 413, 500)
    turns = [error(status, "x_error", f"so it is {status}") for status in statuses]
    with ModelEndpoint(turns) as endpoint, client(endpoint.url) as agent:
        answers = [
            (code, answer["error"]["message"]) for code, answer in (agent.ask() for _ in turns)
        ]
        assert answers == [(status, f"so it is {status}") for status in statuses]
        assert agent.gateway.unusable == ""
    assert len(endpoint.messages) == len(statuses)


def test_an_endpoint_that_cannot_be_reached_costs_nothing_and_is_given_up(
    pauses: list[float],
) -> None:
    with refusing_port() as port, client(f"http://127.0.0.1:{port}") as agent:
        status, answer = agent.ask()
        assert (status, answer["error"]["type"]) == (502, "api_error")
        assert "cannot be reached" in agent.gateway.unusable
        assert len(pauses) > 5
        assert agent.gateway.usage(agent.ticket) == Usage(0.0, 0)


def test_a_connection_that_breaks_before_the_answer_is_retried(pauses: list[float]) -> None:
    def play(connection: socket.socket, number: int) -> None:
        if number > 2:
            json_answer(200, {"usage": {"input_tokens": 5, "output_tokens": 5}})(connection, number)

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        assert agent.ask()[0] == 200
        usage = agent.gateway.usage(agent.ticket)
        assert (usage.tokens or 0) - usage.assumed_tokens == 10
        assert usage.assumed_tokens > 2 * 2000, "the lost answers may have been produced"
    assert len(endpoint.requests) == 3


def test_an_endpoint_that_hangs_is_not_retried() -> None:
    limits = GatewayLimits(silent_s=0.5, retry_s=0.3)
    with (
        ModelEndpoint([Turn(hang=True)]) as endpoint,
        client(endpoint.url, limits=limits) as agent,
    ):
        assert agent.ask()[0] == 502
    assert len(endpoint.messages) == 1


def test_a_stream_that_stalls_is_cut_off_and_billed_at_its_worst_case() -> None:
    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM + events(started(1000), delta("x" * 600)))
        hang(connection)

    with (
        RawEndpoint(play) as endpoint,
        client(endpoint.url, limits=GatewayLimits(silent_s=1)) as agent,
    ):
        with pytest.raises((OSError, http.client.HTTPException)):
            agent.ask(message(stream=True))
        cost, rest = (1000 * 3 + 2000 * 15) / 1_000_000, 1999 * 15 / 1_000_000
        assert agent.gateway.usage(agent.ticket) == Usage(about(cost), 3000, about(rest), 1999)
        assert len(agent.notes) == 2
        assert "cut off" in agent.notes[0]
        assert "the end of an answer was not seen" in agent.notes[1]
    assert len(endpoint.requests) == 1


def test_a_stream_that_breaks_off_is_not_retried() -> None:
    def play(connection: socket.socket, number: int) -> None:
        start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        connection.sendall(start + b"Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n")
        time.sleep(0.1)
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        with pytest.raises((OSError, http.client.HTTPException)):
            agent.ask(message(stream=True))
        usage = agent.gateway.usage(agent.ticket)
        assert usage.tokens == usage.assumed_tokens > 2000
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


def test_garbage_is_an_error_and_billed_unless_it_is_a_redirect(
    pauses: list[float],
) -> None:
    names = list(GARBAGE)

    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(GARBAGE[names[0]])

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        while names:
            status, answer = agent.ask()
            assert (status, answer["type"]) == (502, "error"), names[0]
            agent.gateway.close_bead(agent.ticket)
            tokens = agent.gateway.usage(agent.ticket).tokens
            assert (tokens == 0) == (names[0] == "a redirect"), names[0]
            agent.ticket = agent.gateway.open_bead("verify", {MODEL}, budget_usd=1)
            names.pop(0)


USAGES = [
    b"data: {" + b"[" * 100_000 + b"\n\n",
    b'data: {"usage": {"input_tokens": "many", "output_tokens": -5}}\n\n',
    b'data: {"usage": [1], "message": {"usage": null}, "response": 5, "choices": [5, {}]}\n\n',
    b'data: {"usage": {"input_tokens": true, "output_tokens": 1e400}}\n\n',
    b'data: {"delta": [[{"tool_calls": [5, {"function": 7}]}]], "choices": null}\n\n',
    b"data: \xff\xfe\n\n\n\n:\nid: 5\nretry: x\n",
    b"\x00" * 1000,
]


def test_an_answer_without_usable_figures_is_counted_by_its_bytes() -> None:
    end = events({"type": "message_stop"})

    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM + USAGES[number - 1] + b"\n" + end)

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        for usage in USAGES:
            agent.ticket = agent.gateway.open_bead("verify", {MODEL}, budget_usd=1)
            status, _, body = agent.fetch(message(stream=True), "/v1/messages", "POST", 60)
            assert (status, body) == (200, usage + b"\n" + end)
            used = agent.gateway.usage(agent.ticket)
            assert used.tokens == used.assumed_tokens > 2000, usage


def test_a_slow_request_does_not_delay_others() -> None:
    go_on = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        if number == 1:
            assert go_on.wait(60)
        connection.sendall(STREAM + events(started(1), ended(1)))

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        slow = threading.Thread(target=agent.ask)
        slow.start()
        wait_for(lambda: endpoint.requests, "the first one is forwarded")
        assert agent.ask()[0] == 200
        go_on.set()
        slow.join(60)
        assert agent.gateway.usage(agent.ticket).tokens == 4


def test_a_redirect_is_not_followed() -> None:
    with RawEndpoint(json_answer(200, {})) as other:
        for status in (301, 307, 308):
            location = f"Location: {other.url}/v1/messages"
            with (
                RawEndpoint(json_answer(status, {}, location)) as endpoint,
                client(endpoint.url) as agent,
            ):
                assert agent.ask()[0] == 502
    assert other.requests == []


def test_a_long_answer_is_not_an_idle_connection() -> None:
    """No idle timer runs meanwhile."""
    timers: list[object] = []

    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM + events(started(1)))
        connections = agent.gateway.inner._connections
        timers.extend(connections._idle_timers if connections else ["none"])
        connection.sendall(events(ended(1)))

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        assert "message_delta" in agent.ask(message(stream=True))[1]
    assert (len(endpoint.requests), timers) == (1, [])
