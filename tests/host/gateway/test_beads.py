"""The life of a bead at the gateway: opened, closed, cut off."""

import json
import threading
import time
from typing import Any

from tests.host.gateway.tools import (
    MODEL,
    STREAM,
    RawEndpoint,
    client,
    delta,
    events,
    message,
    started,
)
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import say


def test_a_closed_bead_opens_nothing() -> None:
    with ModelEndpoint([say("Hi"), say("Ho")]) as endpoint, client(endpoint.url) as agent:
        first = agent.ticket
        assert agent.ask()[0] == 200
        agent.gateway.close_bead(first)
        assert agent.ask()[0] == 401
        agent.ticket = agent.gateway.open_bead("verify", {MODEL}, budget_usd=1)
        assert agent.ask()[0] == 200
        assert agent.ask(x_api_key=first.placeholder)[0] == 401
        assert [note.partition(",")[2] for note in agent.notes] == [
            " verify: no bead that is running has this key"
        ]
    assert len(endpoint.messages) == 2


def test_the_end_of_a_bead_ends_its_requests() -> None:
    def play(connection: Any, number: int) -> None:
        connection.sendall(STREAM + events(started(500), delta("x" * 300)))
        time.sleep(3)

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        asking = threading.Thread(target=lambda: agent.raw(_post(agent, message(stream=True)), 5))
        asking.start()
        _until(lambda: len(endpoint.requests) == 1)
        time.sleep(0.2)
        began = time.monotonic()
        assert agent.gateway.close_bead(agent.ticket).tokens == 600
        assert time.monotonic() - began < 1
        asking.join(5)
        began = time.monotonic()
    assert time.monotonic() - began < 4


def _post(agent: Any, body: object) -> bytes:
    raw = json.dumps(body).encode()
    return (
        f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"X-Api-Key: {agent.ticket.placeholder}\r\nContent-Length: {len(raw)}\r\n\r\n"
    ).encode() + raw


def _until(done: Any) -> None:
    end = time.monotonic() + 5
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_stopping_is_quick() -> None:
    def play(connection: Any, number: int) -> None:
        connection.sendall(STREAM + events(started(1)))
        time.sleep(1.5)

    with RawEndpoint(play) as endpoint:
        with client(endpoint.url) as agent:
            threads = [
                threading.Thread(target=lambda: agent.raw(_post(agent, message(stream=True)), 5))
                for _ in range(5)
            ]
            for thread in threads:
                thread.start()
            _until(lambda: len(endpoint.requests) == 5)
            began = time.monotonic()
        assert time.monotonic() - began < 1
        for thread in threads:
            thread.join(5)
