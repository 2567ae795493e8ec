"""The list of models says how much a model takes, and one free request to it whether a key is
accepted and a model known; it leads nowhere else."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gitlab_nightshift.gateway.model_list import ask_for_model, parse_contexts, pick_context
from gitlab_nightshift.gateway.upstream import ModelKey, build_upstream
from tests.gateway.tools import MODEL, RawEndpoint, client, hang, json_answer

VLLM = {"id": "qwen", "object": "model", "max_model_len": 16384}
LLAMA = {"id": "/m/q.gguf", "meta": {"n_vocab": 5, "n_ctx_train": 32768, "n_ctx": 4096}}
ROUTER = {"id": "a/b", "context_length": 131072}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([VLLM, ROUTER], {"qwen": 16384, "a/b": 131072}),
        ([LLAMA], {"/m/q.gguf": 4096}),
        ([{"id": "x", "meta": None}, {"id": "y", "n_ctx": -1}, {"id": "z", "n_ctx": True}], {}),
        ([{"id": "x", "max_model_len": "8192"}], {}),
    ],
)
def test_each_server_has_its_own_key_for_the_context(
    rows: list[Any], found: dict[str, int]
) -> None:
    parsed = parse_contexts(json.dumps({"data": rows}).encode())
    assert {name: tokens for name, tokens in parsed.items() if tokens} == found


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"data": 5}', b'{"data": [5]}', b"[" * 9999])
def test_an_invalid_list_has_no_models(body: bytes) -> None:
    assert parse_contexts(body) == {}


def test_a_server_with_one_model_may_list_it_under_another_name() -> None:
    assert pick_context({"/m/q.gguf": 4096}, "qwen") == 4096
    assert pick_context({"a": 1, "b": 2}, "b") == 2
    assert pick_context({"qwen3:latest": 3, "b": 2}, "qwen3") == 3
    assert pick_context({"a": 1, "b": 2}, "c") is None
    assert pick_context({}, "c") is None


def listed(url: str, variable: str = "OPENAI_API_KEY") -> list[dict[str, Any]]:
    with client(url, variable=variable, models=("qwen", MODEL)) as agent:
        found = [agent.ask(None, "/v1/models", "GET") for _ in range(2)]
        assert found[0] == found[1]
        rows: list[dict[str, Any]] = found[0][1]["data"]
        return rows


def test_an_agent_gets_only_its_models_and_the_endpoint_is_asked_once() -> None:
    other = {"id": "secret-project", "max_model_len": 5}
    with RawEndpoint(json_answer(200, {"data": [VLLM, other]})) as endpoint:
        rows = listed(endpoint.url)
    assert {row["id"]: row.get("max_model_len") for row in rows} == {"qwen": 16384, MODEL: None}
    [request] = endpoint.requests
    assert request.startswith(b"GET /v1/models HTTP/1.1\r\n")


def test_the_context_is_unknown_without_a_list() -> None:
    for play in (json_answer(404, {}), lambda connection, number: None):
        with RawEndpoint(play) as endpoint:
            assert [row.get("max_model_len") for row in listed(endpoint.url)] == [None, None]


def test_a_list_that_does_not_arrive_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitlab_nightshift.gateway.model_gateway.LIST_S", 0.1)
    with RawEndpoint(lambda connection, number: hang(connection)) as endpoint:
        assert [row.get("max_model_len") for row in listed(endpoint.url)] == [None, None]


def test_anthropics_list_is_not_requested() -> None:
    with RawEndpoint(json_answer(200, {})) as endpoint:
        listed(endpoint.url, "ANTHROPIC_API_KEY")
        assert endpoint.requests == []


@contextmanager
def endpoint(
    status: int, location: str = "", body: bytes = b""
) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """An endpoint with one answer; what it was asked, with the key."""
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("X-Api-Key")))
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def ask(url: str) -> tuple[int, str]:
    found = ask_for_model(build_upstream(ModelKey("ANTHROPIC_API_KEY", "sk-1"), url, {}), "m/1")
    return found.status, found.why


def test_the_key_is_sent_and_the_status_returned() -> None:
    for status in (200, 401, 404, 500):
        with endpoint(status) as (url, asked):
            assert ask(url) == (status, "")
            assert asked == [("/v1/models/m%2F1", "sk-1")]


def test_the_key_goes_to_no_other_address() -> None:
    with endpoint(200) as (other, asked), endpoint(302, other) as (url, _):
        assert ask(url) == (302, "")
        assert asked == []


def test_an_endpoint_that_refuses_the_connection() -> None:
    with endpoint(200) as (url, _):
        pass
    status, why = ask(url)
    assert (status, "refused" in why) == (0, True)


LISTS: dict[str, tuple[object, str, int]] = {
    "vLLM": ({"object": "list", "data": [{"id": "m/1", "max_model_len": 8192}]}, "m/1", 8192),
    "llama.cpp": ({"data": [{"id": "/m/q.gguf", "meta": {"n_ctx": 4096}}]}, "qwen", 4096),
    "Ollama": (
        {"data": [{"id": "qwen3:latest", "owned_by": "library"}, {"id": "phi:3b"}]},
        "qwen3",
        0,
    ),
}


@pytest.mark.parametrize("server", LISTS)
def test_the_model_and_its_context_are_found_in_a_list(server: str) -> None:
    """A name with slashes has no address of its own at most servers."""
    rows, model, context = LISTS[server]
    with endpoint(200, body=json.dumps(rows).encode()) as (url, asked):
        found = ask_for_model(build_upstream(ModelKey("OPENAI_API_KEY", "sk-1"), url, {}), model)
    assert (found.status, found.context) == (200, context)
    assert [path for path, _ in asked] == ["/v1/models"]


def test_a_model_that_is_not_listed() -> None:
    body = json.dumps({"data": [{"id": "a"}, {"id": "b"}]}).encode()
    with endpoint(200, body=body) as (url, _):
        found = ask_for_model(build_upstream(ModelKey("OPENAI_API_KEY", "sk-1"), url, {}), "m")
    assert (found.status, found.listed) == (404, ("a", "b"))
