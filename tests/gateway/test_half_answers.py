"""An answer without its closing mark is cut off, however cleanly its connection ends."""

import http.client
import json
import socket
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest

from gitlab_nightshift.gateway.answer_reader import Meter, ReportedUsage
from gitlab_nightshift.gateway.limits import GatewayLimits
from tests.gateway.tools import (
    MODEL,
    STREAM,
    Client,
    RawEndpoint,
    client,
    delta,
    ended,
    events,
    hang,
    head,
    message,
    started,
)
from tests.support.turns import JsonObject

GPT = "gpt-x"
JSON = "application/json"


@dataclass(frozen=True)
class Protocol:
    """An interface: a request, the start of an answer, and each way to end it."""

    path: str
    variable: str
    body: JsonObject
    start: bytes
    ends: tuple[bytes, ...]


REQUEST = {"model": GPT, "stream": True}
CHUNK = {"choices": [{"delta": {"content": "half"}, "finish_reason": "stop"}]}
PROTOCOLS = {
    "messages": Protocol(
        "/v1/messages",
        "ANTHROPIC_API_KEY",
        message(stream=True),
        events(started(10), delta("half"), ended(5), closed=False),
        (events({"type": "message_stop"}), events({"type": "error", "error": {"type": "x"}})),
    ),
    "responses": Protocol(
        "/v1/responses",
        "OPENAI_API_KEY",
        {**REQUEST, "input": "Hello"},
        events({"type": "response.output_text.delta", "delta": "half"}),
        tuple(
            events({"type": f"response.{how}", "response": {}})
            for how in ("completed", "incomplete", "failed")
        ),
    ),
    "chat": Protocol(
        "/v1/chat/completions",
        "OPENAI_API_KEY",
        {**REQUEST, "messages": [{"role": "user", "content": "Hello"}]},
        f"data: {json.dumps(CHUNK)}\n\n".encode(),
        (b"data: [DONE]\n\n", b"data:[DONE]\n", b'data: {"error": {"message": "x"}}\n\n'),
    ),
}


def connect(endpoint: RawEndpoint, protocol: Protocol) -> AbstractContextManager[Client]:
    models, limits = (MODEL, GPT), GatewayLimits(linger_s=0.05)
    return client(
        endpoint.url, variable=protocol.variable, models=models, limits=limits, budget_usd=None
    )


def answering(raw: bytes) -> RawEndpoint:
    return RawEndpoint(lambda connection, number: connection.sendall(raw))


def read(agent: Client, protocol: Protocol) -> bytes | None:
    """The answer as an agent gets it, None if it is cut off."""
    try:
        status, _, raw = agent.fetch(protocol.body, protocol.path, "POST", 60)
    except (OSError, http.client.HTTPException):
        return None
    assert status == 200
    return raw


@pytest.mark.parametrize("name", PROTOCOLS)
def test_an_answer_with_its_closing_mark_is_complete(name: str) -> None:
    protocol = PROTOCOLS[name]
    for end in protocol.ends:
        answer = protocol.start + end
        with answering(STREAM + answer) as endpoint, connect(endpoint, protocol) as agent:
            assert read(agent, protocol) == answer
            assert not [note for note in agent.notes if "cut off" in note]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_stream_without_its_closing_mark_is_cut_off(name: str) -> None:
    protocol = PROTOCOLS[name]
    for cut in (b"", protocol.start, protocol.start + protocol.ends[0][:-3], protocol.start[:-4]):
        with answering(STREAM + cut) as endpoint, connect(endpoint, protocol) as agent:
            assert read(agent, protocol) is None, cut
            text = "an answer was cut off: the stream ended without its end"
            assert any(text in note for note in agent.notes), agent.notes


@pytest.mark.parametrize("name", PROTOCOLS)
def test_without_the_check_half_an_answer_would_be_complete(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Meter.end

    def end_closed(meter: Meter) -> ReportedUsage:
        meter.closed = True
        return end(meter)

    monkeypatch.setattr(Meter, "end", end_closed)
    protocol = PROTOCOLS[name]
    with answering(STREAM + protocol.start) as endpoint, connect(endpoint, protocol) as agent:
        assert read(agent, protocol) == protocol.start


def test_an_answer_that_is_no_json_is_cut_off() -> None:
    protocol = PROTOCOLS["chat"]
    for body in (b"", b'{"choices": [', b"<h1>Sign in</h1>", b"[]"):
        with answering(head(200, JSON) + body) as endpoint, connect(endpoint, protocol) as agent:
            assert read(agent, protocol) is None, body


def test_a_connection_that_stays_open_after_the_closing_mark_is_not_waited_for() -> None:
    protocol = PROTOCOLS["chat"]
    answer = protocol.start + protocol.ends[0]

    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM + answer)
        hang(connection)

    with RawEndpoint(play) as endpoint, connect(endpoint, protocol) as agent:
        assert read(agent, protocol) == answer
