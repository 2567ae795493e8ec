"""Requests and answers that pass through the gateway."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gateway.openai import LIGHT_HEADER
from gitlab_nightshift.gateway.prices import Rates
from gitlab_nightshift.gateway.upstream import ModelKey
from gitlab_nightshift.records.usage import Usage
from tests.gateway.counting import has_no_request, read_until_seen, request_bytes
from tests.gateway.tools import (
    KEY,
    MODEL,
    STREAM,
    RawEndpoint,
    about,
    client,
    delta,
    ended,
    events,
    json_answer,
    message,
    started,
)
from tests.support.model_endpoint import ModelEndpoint
from tests.support.trees import wait_for
from tests.support.turns import costing, say

ANSWER = {"id": "m", "type": "message", "usage": {"input_tokens": 100, "output_tokens": 10}}


def test_an_answer_is_passed_on_and_costs_what_it_reports() -> None:
    turn = costing(
        say("Hi"),
        input_tokens=1000,
        output_tokens=100,
        cache_creation_input_tokens=200,
        cache_read_input_tokens=3000,
    )
    with ModelEndpoint([turn, turn]) as endpoint, client(endpoint.url) as agent:
        status, answer = agent.ask()
        assert (status, answer["content"][0]["text"]) == (200, "Hi")
        one = (1000 * 3 + 100 * 15 + 200 * 3.75 + 3000 * 0.3) / 1_000_000
        assert agent.gateway.usage(agent.ticket) == Usage(about(one), 4300)
        assert agent.ask(message(stream=True))[0] == 200
        assert agent.gateway.close_bead(agent.ticket) == Usage(about(2 * one), 8600)
        assert agent.notes == []


@pytest.mark.parametrize(
    ("variable", "header", "value"),
    [
        ("ANTHROPIC_API_KEY", "x-api-key", KEY),
        ("ANTHROPIC_AUTH_TOKEN", "authorization", f"Bearer {KEY}"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "authorization", f"Bearer {KEY}"),
    ],
)
def test_the_key_is_added_by_its_kind(variable: str, header: str, value: str) -> None:
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url, variable=variable) as agent:
        assert agent.ask(authorization=f"Bearer {agent.ticket.placeholder}")[0] == 200
    headers = endpoint.messages[0].headers
    assert headers[header] == value
    assert agent.ticket.placeholder not in json.dumps(dict(headers))
    assert ("x-api-key" in headers) != ("authorization" in headers)
    beta = headers.get("anthropic-beta", "")
    assert beta == ("oauth-2025-04-20" if variable == "CLAUDE_CODE_OAUTH_TOKEN" else "")


def test_only_known_headers_are_forwarded() -> None:
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        agent.ask(
            None,
            "/v1/messages?beta=true",
            anthropic_version="2023-06-01",
            anthropic_beta="effort-2025-11-24, web-fetch-2025-09-10,mcp-client-2025-04-04, effort",
            user_agent="claude-cli/9.9",
            cookie="a=b",
            x_forwarded_host="evil.example",
            x_my_secret="s3cret",
        )
        assert any("web-fetch" in note for note in agent.notes)
    request = endpoint.messages[0]
    assert request.path == "/v1/messages?beta=true"
    assert dict(request.headers) == {
        "host": endpoint.url.removeprefix("http://"),
        "content-type": "application/json",
        "content-length": request.headers["content-length"],
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "claude-cli/9.9",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "effort-2025-11-24",
        "x-api-key": KEY,
    }


def test_the_gateway_adds_the_teams_headers() -> None:
    env = {"ANTHROPIC_CUSTOM_HEADERS": "X-Team: nights\nX-Gateway-Token: abcdefgh"}
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url, env=env) as agent:
        agent.ask()
    headers = endpoint.messages[0].headers
    assert (headers["x-team"], headers["x-gateway-token"]) == ("nights", "abcdefgh")


def test_a_stream_is_passed_on_as_it_arrives() -> None:
    go_on = threading.Event()

    def play(connection: Any, number: int) -> None:
        connection.sendall(STREAM + events(started(10), delta("one")))
        assert go_on.wait(60)
        connection.sendall(events(delta("two"), ended(7)))

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        with socket.create_connection(("127.0.0.1", agent.port), 60) as connection:
            connection.sendall(request_bytes(agent, stream=True))
            read_until_seen(connection, b"one")
            go_on.set()
            read_until_seen(connection, b"message_stop")
        wait_for(lambda: has_no_request(agent), "the answer is billed")
        assert agent.gateway.usage(agent.ticket).tokens == 17


def test_requests_that_no_model_answers_cost_nothing() -> None:
    with ModelEndpoint([]) as endpoint, client(endpoint.url) as agent:
        assert agent.ask(path="/", method="HEAD")[0] == 200
        status, models = agent.ask(path="/v1/models?limit=5", method="GET")
        assert (status, [row["id"] for row in models["data"]]) == (200, [MODEL])
        body = {"model": MODEL, "messages": message()["messages"]}
        status, counted = agent.ask(body, "/v1/messages/count_tokens")
        assert status == 200
        assert counted["input_tokens"] > 0
        assert agent.gateway.usage(agent.ticket) == Usage(0.0, 0)
    assert [r.path for r in endpoint.requests] == ["/v1/messages/count_tokens"]


def test_the_gateway_also_serves_a_unix_socket_of_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url, path=path) as agent:
        assert path.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(request_bytes(agent))
            read_until_seen(connection, b"HTTP/1.1 200 OK")


def test_chat_completions_always_report_their_usage() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 40},
    }
    chunks = [{"choices": [{"delta": {"content": "Hi"}}]}, {"choices": [], "usage": usage}]
    raw = STREAM + b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks)
    rates = {"local": Rates(10, 20, 10, 10, 1)}
    with (
        RawEndpoint(lambda connection, number: connection.sendall(raw + b"data: [DONE]\n\n")) as up,
        client(up.url + "/v1", variable="OPENAI_API_KEY", models=("local",), rates=rates) as agent,
    ):
        messages = [{"role": "user", "content": "Hello"}]
        body = {"model": "local", "messages": messages, "stream": True, "user": "me"}
        status, text = agent.ask(body, "/v1/chat/completions")
        assert status == 200
        assert "[DONE]" in text
        cost = (60 * 10 + 40 * 1 + 10 * 20) / 1_000_000
        assert agent.gateway.usage(agent.ticket) == Usage(about(cost), 110)
        assert agent.notes == []
    head, _, sent = up.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1")
    assert f"Bearer {KEY}".encode() in head
    assert json.loads(sent) == {
        "model": "local",
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 32_000,
    }


def test_responses_are_metered_and_not_stored_at_the_provider() -> None:
    done = {
        "type": "response.completed",
        "response": {
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 30},
                "output_tokens": 20,
            }
        },
    }
    raw = STREAM + events({"type": "response.output_text.delta", "delta": "x" * 900}, done)
    with (
        RawEndpoint(lambda connection, number: connection.sendall(raw)) as up,
        client(up.url, variable="OPENAI_API_KEY", models=("gpt",), budget_usd=None) as agent,
    ):
        tool = {"type": "function", "name": "shell", "parameters": {}, "strict": False}
        body = {
            "model": "gpt",
            "input": [{"type": "message", "role": "user", "content": "Hello"}],
            "tools": [tool, {"type": "namespace", "name": "n", "tools": [tool]}],
            "stream": True,
            "store": True,
            "include": ["reasoning.encrypted_content"],
            "client_metadata": {"installation": "1"},
        }
        assert agent.ask(body, "/v1/responses")[0] == 200
        # Without a price the cost is unknown, never zero.
        assert agent.gateway.usage(agent.ticket) == Usage(None, 120)
        assert [note for note in agent.notes if "no price is known for gpt" in note]
    sent = json.loads(up.requests[0].partition(b"\r\n\r\n")[2])
    assert sent["store"] is False
    assert "client_metadata" not in sent
    assert sent["tools"] == body["tools"]


@pytest.mark.parametrize("light", [True, False])
def test_codex_may_request_the_light_format_by_its_header(light: bool) -> None:
    """Its tools are an item of the conversation, and a header says so; no other header is
    forwarded."""
    done = {"type": "response.completed", "response": {"usage": {"input_tokens": 1}}}
    raw = STREAM + events(done)
    with (
        RawEndpoint(lambda connection, number: connection.sendall(raw)) as up,
        client(up.url, variable="OPENAI_API_KEY", models=("gpt",), budget_usd=None) as agent,
    ):
        tool = {"type": "custom", "name": "exec", "description": "Run", "format": {"type": "text"}}
        tools = [{"type": "namespace", "name": "functions", "description": "", "tools": [tool]}]
        items = [
            {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": tools},
            {"type": "message", "role": "user", "content": "Hello"},
        ]
        reasoning = {"effort": "low", "context": "all_turns"}
        body = {"model": "gpt", "input": items, "reasoning": reasoning, "stream": True}
        headers = {"x-codex-turn-metadata": "{}", **({LIGHT_HEADER: "true"} if light else {})}
        assert agent.ask(body, "/v1/responses", "POST", 10, **headers)[0] == 200
        assert [note for note in agent.notes if "not known" in note] == []
    head, _, sent = up.requests[0].partition(b"\r\n\r\n")
    assert json.loads(sent)["input"] == items
    assert json.loads(sent)["reasoning"] == reasoning
    assert (f"{LIGHT_HEADER}: true".encode() in head.lower()) is light
    assert b"x-codex" not in head.lower()


def test_an_agent_may_hang_up_after_the_last_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """codex does not wait for the end of the connection: a race, which this agent wins."""
    done = {
        "type": "response.completed",
        "response": {"usage": {"input_tokens": 3, "output_tokens": 4}},
    }
    raw = STREAM + events(done)
    write_eof = web.StreamResponse.write_eof

    async def write_too_late(response: web.StreamResponse, data: bytes = b"") -> None:
        await write_eof(response, data)
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    with (
        RawEndpoint(lambda connection, number: connection.sendall(raw)) as up,
        client(up.url, variable="OPENAI_API_KEY", models=("gpt",), budget_usd=None) as agent,
    ):
        monkeypatch.setattr(web.StreamResponse, "write_eof", write_too_late)
        body = {"model": "gpt", "input": "Hello", "stream": True}
        assert agent.ask(body, "/v1/responses")[0] == 200
        agent.gateway.close_bead(agent.ticket)
        assert agent.gateway.usage(agent.ticket) == Usage(None, 7)
        assert [note for note in agent.notes if "cut off" in note] == []


def test_no_repr_shows_a_key() -> None:
    key = ModelKey("ANTHROPIC_API_KEY", f"{KEY}\n")
    assert key.value == KEY
    with ModelEndpoint([]) as endpoint, client(endpoint.url) as agent:
        shown = repr([key, agent.ticket, agent.gateway.inner, agent.gateway.inner._upstream])
    assert KEY not in shown
    assert agent.ticket.placeholder not in shown
    for invalid in ("", "a\nb", "schlüssel"):
        with pytest.raises(NightshiftError) as caught:
            ModelKey("OPENAI_API_KEY", invalid)
        assert not invalid or invalid not in str(caught.value)


def test_an_answer_without_a_stream_is_metered() -> None:
    with RawEndpoint(json_answer(200, ANSWER)) as endpoint, client(endpoint.url) as agent:
        assert agent.ask()[1] == ANSWER
        assert agent.gateway.usage(agent.ticket).tokens == 110
