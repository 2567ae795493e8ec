"""The list of models and their contexts, and the free request that checks a key and a model."""

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
    ("models", "expected"),
    [
        ([VLLM, ROUTER], {"qwen": 16384, "a/b": 131072}),
        ([LLAMA], {"/m/q.gguf": 4096}),
        ([{"id": "x", "meta": None}, {"id": "y", "n_ctx": -1}, {"id": "z", "n_ctx": True}], {}),
        ([{"id": "x", "max_model_len": "8192"}], {}),
    ],
)
def test_each_server_has_its_own_key_for_the_context(
    models: list[Any], expected: dict[str, int]
) -> None:
    contexts = parse_contexts(json.dumps({"data": models}).encode())
    assert {name: tokens for name, tokens in contexts.items() if tokens} == expected


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"data": 5}', b'{"data": [5]}', b"[" * 9999])
def test_an_invalid_list_has_no_models(body: bytes) -> None:
    assert parse_contexts(body) == {}


def test_a_server_with_one_model_may_list_it_under_another_name() -> None:
    assert pick_context({"/m/q.gguf": 4096}, "qwen") == 4096
    assert pick_context({"a": 1, "b": 2}, "b") == 2
    assert pick_context({"qwen3:latest": 3, "b": 2}, "qwen3") == 3
    assert pick_context({"a": 1, "b": 2}, "c") is None
    assert pick_context({}, "c") is None


def list_contexts(url: str, variable: str = "OPENAI_API_KEY") -> dict[str, int | None]:
    """The contexts in the list that an agent gets, twice."""
    with client(url, variable=variable, models=("qwen", MODEL)) as agent:
        first, second = (agent.ask(None, "/v1/models", "GET") for _ in range(2))
        assert first == second
        return {model["id"]: model.get("max_model_len") for model in first[1]["data"]}


UNKNOWN = {"qwen": None, MODEL: None}


def test_an_agent_gets_only_its_models_and_the_endpoint_is_asked_once() -> None:
    other = {"id": "secret-project", "max_model_len": 5}
    with RawEndpoint(json_answer(200, {"data": [VLLM, other]})) as endpoint:
        assert list_contexts(endpoint.url) == {"qwen": 16384, MODEL: None}
    [request] = endpoint.requests
    assert request.startswith(b"GET /v1/models HTTP/1.1\r\n")


def test_the_context_is_unknown_without_a_list() -> None:
    for play in (json_answer(404, {}), lambda connection, number: None):
        with RawEndpoint(play) as endpoint:
            assert list_contexts(endpoint.url) == UNKNOWN


def test_a_list_that_does_not_arrive_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitlab_nightshift.gateway.model_gateway.LIST_S", 0.1)
    with RawEndpoint(lambda connection, number: hang(connection)) as endpoint:
        assert list_contexts(endpoint.url) == UNKNOWN


def test_anthropics_list_is_not_requested() -> None:
    with RawEndpoint(json_answer(200, {})) as endpoint:
        assert list_contexts(endpoint.url, "ANTHROPIC_API_KEY") == UNKNOWN
        assert endpoint.requests == []


@contextmanager
def endpoint(
    status: int, location: str = "", body: bytes = b""
) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """The URL of an endpoint with one answer, and the path and key of each request."""
    requests: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, self.headers.get("X-Api-Key")))
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
            yield f"http://127.0.0.1:{server.server_address[1]}", requests
        finally:
            server.shutdown()
            thread.join()


def ask(url: str) -> tuple[int, str]:
    model = ask_for_model(build_upstream(ModelKey("ANTHROPIC_API_KEY", "sk-1"), url, {}), "m/1")
    return model.status, model.why


def test_the_key_is_sent_and_the_status_returned() -> None:
    for status in (200, 401, 404, 500):
        with endpoint(status) as (url, requests):
            assert ask(url) == (status, "")
            assert requests == [("/v1/models/m%2F1", "sk-1")]


def test_the_key_goes_to_no_other_address() -> None:
    with endpoint(200) as (other, requests), endpoint(302, other) as (url, _):
        assert ask(url) == (302, "")
        assert requests == []


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
    """Most servers have no URL for a name with slashes."""
    models, name, context = LISTS[server]
    with endpoint(200, body=json.dumps(models).encode()) as (url, requests):
        model = ask_for_model(build_upstream(ModelKey("OPENAI_API_KEY", "sk-1"), url, {}), name)
    assert (model.status, model.context) == (200, context)
    assert [path for path, _ in requests] == ["/v1/models"]


def test_a_model_that_is_not_listed() -> None:
    body = json.dumps({"data": [{"id": "a"}, {"id": "b"}]}).encode()
    with endpoint(200, body=body) as (url, _):
        model = ask_for_model(build_upstream(ModelKey("OPENAI_API_KEY", "sk-1"), url, {}), "m")
    assert (model.status, model.listed) == (404, ("a", "b"))
