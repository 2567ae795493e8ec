"""The list of models says how much a model takes."""

import json
from typing import Any

import pytest

from gitlab_nightshift.gateway.model_list import parse_contexts, pick_context
from tests.gateway.tools import MODEL, RawEndpoint, client, hang, whole

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
def test_each_server_has_its_own_name_for_it(rows: list[Any], found: dict[str, int]) -> None:
    parsed = parse_contexts(json.dumps({"data": rows}).encode())
    assert {name: tokens for name, tokens in parsed.items() if tokens} == found


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"data": 5}', b'{"data": [5]}', b"[" * 9999])
def test_what_is_no_list_says_nothing(body: bytes) -> None:
    assert parse_contexts(body) == {}


def test_a_server_of_one_model_may_call_it_by_another_name() -> None:
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


def test_an_agent_is_told_of_its_own_models_alone_and_the_endpoint_asked_once() -> None:
    other = {"id": "secret-project", "max_model_len": 5}
    with RawEndpoint(whole(200, {"data": [VLLM, other]})) as endpoint:
        rows = listed(endpoint.url)
    assert {row["id"]: row.get("max_model_len") for row in rows} == {"qwen": 16384, MODEL: None}
    [request] = endpoint.requests
    assert request.startswith(b"GET /v1/models HTTP/1.1\r\n")


def test_an_endpoint_without_a_list_costs_nothing_but_the_question() -> None:
    for play in (whole(404, {}), lambda connection, number: None):
        with RawEndpoint(play) as endpoint:
            assert [row.get("max_model_len") for row in listed(endpoint.url)] == [None, None]


def test_an_endpoint_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitlab_nightshift.gateway.model_gateway.LIST_S", 0.1)
    with RawEndpoint(lambda connection, number: hang(connection)) as endpoint:
        assert [row.get("max_model_len") for row in listed(endpoint.url)] == [None, None]


def test_claudes_list_is_not_asked_for() -> None:
    with RawEndpoint(whole(200, {})) as endpoint:
        listed(endpoint.url, "ANTHROPIC_API_KEY")
        assert endpoint.requests == []
