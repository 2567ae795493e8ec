"""Attacks on the gateway by an agent that holds a placeholder, or none."""

import contextlib
import http.client
import json
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from gitlab_nightshift.gateway.limits import GatewayLimits
from tests.gateway.tools import (
    KEY,
    MODEL,
    STREAM,
    TOOL,
    Client,
    RawEndpoint,
    client,
    head,
    json_answer,
    message,
)
from tests.support.model_endpoint import ModelEndpoint
from tests.support.trees import wait_for
from tests.support.turns import JsonObject, say

TARGETS = [
    "/v1/messages/../files",
    "/v1/messages/%2e%2e/files",
    "/v1/%6dessages",
    "/v1//messages",
    "//v1/messages",
    "/v1/messages/",
    "/V1/MESSAGES",
    "/v1/messages;x=1",
    "/v1/messages?beta=true&x=https://evil.example",
    "/v1/messages?beta=false",
    "/v1/messages#x",
    "/v1/messages/batches",
    "/v1/files",
    "/v1/organizations/api_keys",
    "/v1/responses",
    "/v1/chat/completions",
    "/",
    "*",
    "http://evil.example/v1/messages",
    "http://127.0.0.1/v1/messages",
    "https://api.anthropic.com/v1/messages",
    "\\v1\\messages",
]


def post(agent: Client, target: str, *headers: str, body: bytes | None = None) -> bytes:
    """A request as raw bytes."""
    raw = json.dumps(message()).encode() if body is None else body
    lines = [
        f"POST {target} HTTP/1.1",
        "Host: gateway",
        "Connection: close",
        f"X-Api-Key: {agent.ticket.placeholder}",
        "Content-Type: application/json",
        *(headers or (f"Content-Length: {len(raw)}",)),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1") + raw


def status(answer: bytes) -> str:
    return answer.partition(b"\r\n")[0].decode().partition(" ")[2][:3]


def assert_nothing_forwarded(endpoint: ModelEndpoint, agent: Client) -> None:
    """Nothing was forwarded, and the gateway still serves."""
    assert endpoint.requests == []
    assert agent.ask()[0] == 200
    assert len(endpoint.messages) == 1


def test_no_other_spelling_of_a_path_is_forwarded() -> None:
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        answers = {target: agent.raw(post(agent, target)) for target in TARGETS}
        assert {t: status(a) for t, a in answers.items() if status(a) not in ("400", "404")} == {}
        assert KEY.encode() not in b"".join(answers.values())
        assert any("/v1/files" in note for note in agent.notes)
        assert_nothing_forwarded(endpoint, agent)


def test_no_other_method_is_forwarded() -> None:
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        raw = post(agent, "/v1/messages")
        methods = (b"GET", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PRI")
        answers = {m: status(agent.raw(raw.replace(b"POST", m, 1))) for m in methods}
        assert {m: answer for m, answer in answers.items() if answer not in ("400", "404")} == {}
        assert_nothing_forwarded(endpoint, agent)


SMUGGLED = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"0\r\n\r\n"
HEADERS: dict[str, tuple[tuple[str, ...], bytes]] = {
    "TE and CL": (("Content-Length: 5", "Transfer-Encoding: chunked"), CHUNKED + SMUGGLED),
    "CL and TE": (("Transfer-Encoding: chunked", "Content-Length: 5"), CHUNKED + SMUGGLED),
    "two lengths": (("Content-Length: 5", "Content-Length: 50"), SMUGGLED),
    "a list of lengths": (("Content-Length: 5, 50",), SMUGGLED),
    "a signed length": (("Content-Length: +5",), SMUGGLED),
    "a negative length": (("Content-Length: -1",), SMUGGLED),
    "a length in hex": (("Content-Length: 0x5",), SMUGGLED),
    "chunks": (("Transfer-Encoding: chunked",), b"2\r\n{}\r\n0\r\n\r\n"),
    "odd chunks": (("Transfer-Encoding: xchunked",), CHUNKED),
    "a space before the colon": (("Content-Length : 5",), SMUGGLED),
    "a folded header": (("Content-Length: 2\r\n 0",), SMUGGLED),
    "no length": ((("X-A: b"),), b""),
    "a bare line feed": (("Content-Length: 2\nX-Evil: 1",), b"{}"),
    "a zero byte": (("Content-Length: 2", "X-Evil: a\0b"), b"{}"),
    "packed": (("Content-Length: 2", "Content-Encoding: gzip"), b"{}"),
    "a form": (("Content-Length: 2", "Content-Type: multipart/form-data"), b"{}"),
    "a very long header": (("Content-Length: 2", "X-Long: " + "a" * 9000), b"{}"),
    "very many headers": (("Content-Length: 2", *(f"X-{n}: 1" for n in range(100))), b"{}"),
    "too much": (("Content-Length: 99999999999",), b"{}"),
}


def test_ambiguous_headers_are_refused() -> None:
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        failures = []
        for name, (headers, body) in HEADERS.items():
            answer = agent.raw(post(agent, "/v1/messages", *headers, body=body))
            if status(answer) not in ("400", "411", "413", "415") or endpoint.requests:
                failures.append((name, answer, endpoint.requests))
        assert failures == []
        assert_nothing_forwarded(endpoint, agent)


def test_values_cannot_become_headers() -> None:
    """Headers that are forwarded have to match a pattern completely."""
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        lines = (
            f"Content-Length: {len(json.dumps(message()))}",
            "anthropic-version: 2023-06-01, x: y",
            "anthropic-beta: effort-2025-11-24\tx, \x7fevil-2025-01-01",
            "User-Agent: \xff\xfe",
        )
        assert status(agent.raw(post(agent, "/v1/messages", *lines))) in ("200", "400")
    for request in endpoint.messages:
        assert request.headers["anthropic-version"] == "2023-06-01"
        assert request.headers["user-agent"] == "nightshift"
        assert "anthropic-beta" not in request.headers


KEYS: dict[str, Callable[[Client], dict[str, str]]] = {
    "none": lambda agent: {"x_api_key": ""},
    "another": lambda agent: {"x_api_key": "sk-ant-placeholder-" + "0" * 48},
    "the beginning": lambda agent: {"x_api_key": agent.ticket.placeholder[:-1]},
    "more": lambda agent: {"x_api_key": agent.ticket.placeholder + "0"},
    "two": lambda agent: {"authorization": "Bearer sk-ant-other"},
    "basic": lambda agent: {"authorization": f"Basic {agent.ticket.placeholder}"},
    "not ASCII": lambda agent: {"x_api_key": "schl\xfcssel"},
}


def test_only_the_complete_placeholder_is_accepted() -> None:
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        failures = []
        for name, build_headers in KEYS.items():
            headers: Any = build_headers(agent)
            code, answer = agent.ask(**headers)
            if (code, answer["error"]["type"]) != (401, "authentication_error"):
                failures.append((name, code, answer))
        assert failures == []
        assert_nothing_forwarded(endpoint, agent)


def test_each_bead_pays_for_itself() -> None:
    with ModelEndpoint([say("Hi"), say("Ho")]) as endpoint, client(endpoint.url) as agent:
        other = agent.gateway.open_bead("verify", {"claude-opus-4-6"}, budget_usd=5)
        agent.ask(x_api_key=other.placeholder)
        assert endpoint.messages == []  # that bead has another model
        opus: JsonObject = message(model="claude-opus-4-6")
        assert agent.ask(opus, x_api_key=other.placeholder)[0] == 200
        assert agent.gateway.usage(agent.ticket).tokens == 0
        assert agent.gateway.usage(other).tokens == 1100


def test_the_key_never_comes_back() -> None:
    """The endpoint echoes its request: in an error, in an answer, in a stream."""

    def cut_in_two(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM + b"data: " + KEY[:20].encode())
        time.sleep(0.1)
        connection.sendall(KEY[20:].encode() + b"\n\n")

    plays = [
        json_answer(400, {"error": {"message": f"headers: {KEY}"}}),
        lambda c, n: c.sendall(head(400, "text/html") + KEY.encode()),
        json_answer(401, {"error": {"message": f"Incorrect API key: {KEY}"}}),
        lambda c, n: c.sendall(head(200, "application/json", f"X-Echo: {KEY}") + b"{}"),
        json_answer(200, {"echo": KEY}),
        cut_in_two,
    ]
    for play in plays:
        with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
            answer = agent.raw(post(agent, "/v1/messages"))
            assert KEY.encode() not in answer
            assert KEY[20:].encode() not in answer
            assert KEY not in str(agent.notes)


def test_a_request_that_arrives_too_slowly_is_cut_off() -> None:
    with (
        ModelEndpoint([]) as endpoint,
        client(endpoint.url, limits=GatewayLimits(idle_s=0.5, body_s=0.5)) as agent,
        contextlib.ExitStack() as stack,
    ):
        data = (b"POST /v1/mess", b"", post(agent, "/v1/messages", "Content-Length: 500"))
        connections = [stack.enter_context(connect(agent)) for _ in data]
        for connection, start in zip(connections, data, strict=True):
            connection.sendall(start)
        for connection in connections:
            while connection.recv(4096):
                pass
        assert endpoint.requests == []


def connect(agent: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", agent.port), 60)


def serves(agent: Client) -> bool:
    """True once the gateway has seen that other clients have disconnected."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return agent.ask()[0] == 200
    return False


def test_connections_are_limited_and_freed_again() -> None:
    with (
        ModelEndpoint([say("Hi")]) as endpoint,
        client(endpoint.url, limits=GatewayLimits(connections=8)) as agent,
    ):
        connections = [connect(agent) for _ in range(20)]
        wait_for(
            lambda: len(select.select(connections, [], [], 0)[0]) >= 12, "the others are closed"
        )
        assert len(select.select(connections, [], [], 0.1)[0]) == 12
        for connection in connections:
            connection.close()
        wait_for(lambda: serves(agent), "the gateway serves again")
        assert len(endpoint.messages) == 1


def test_the_size_of_all_bodies_is_limited() -> None:
    """A body counts from its announced length on, before it arrives."""
    limits = GatewayLimits(body_bytes=1_000_000, held_bytes=2_500_000)
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url, limits=limits) as agent:
        raw = post(agent, "/v1/messages", "Content-Length: 1000000", body=b"{")
        connections = [connect(agent) for _ in range(2)]
        for connection in connections:
            connection.sendall(raw)
        bodies = agent.gateway.inner._bodies
        wait_for(lambda: bodies._held_bytes == 2_000_000, "both are held")
        assert status(agent.raw(raw)) == "429"
        for connection in connections:
            connection.close()
        wait_for(lambda: bodies._held_bytes == 0, "none is held")
        assert_nothing_forwarded(endpoint, agent)


def test_notes_of_refusals_are_few_short_and_printable() -> None:
    """An agent cannot fill the log, or write lines of its own into it."""
    with ModelEndpoint([]) as endpoint, client(endpoint.url) as agent:
        for number in range(200):
            agent.ask(message(model=f"m{number}\n\x1b[31m{'x' * 500}"))
        assert 0 < len(agent.notes) <= 50
        assert all(len(note) < 250 and note.isprintable() for note in agent.notes)


def test_tools_keep_their_names() -> None:
    """A client-side tool may have any name: the type decides who runs it."""
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        tools = [{**TOOL, "name": "web_fetch"}, {**TOOL, "type": "custom"}]
        assert agent.ask(message(tools=tools))[0] == 200
    assert endpoint.messages[0].body["tools"] == tools
    assert endpoint.messages[0].model == MODEL
