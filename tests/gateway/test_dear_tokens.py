"""Tokens that cost more than others, and texts with more tokens than expected."""

import json
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from gitlab_nightshift.gateway.answer_reader import Meter
from gitlab_nightshift.gateway.cost_account import Account
from gitlab_nightshift.gateway.prices import KNOWN_RATES, Tokens, merge_rates
from gitlab_nightshift.gateway.request_body import CheckedRequest, InputTokens, RequestTraits
from gitlab_nightshift.gateway.upstream import Api
from gitlab_nightshift.records.usage import SpendingLimit
from gitlab_nightshift.settings.setting_groups import LongPrice, Price
from tests.gateway.counting import usd
from tests.gateway.tools import MODEL, RawEndpoint, about, client, json_answer, message
from tests.support.trees import wait_for


def ask_with_dense_text(pool: ThreadPoolExecutor) -> tuple[float, float]:
    """USD that are produced for an agent with a dollar that sends text of one token per byte, eight
    times at once; and the cost of the dearest of these answers."""
    text, go_on = "𒀀" * 20_000, threading.Event()
    produced: list[float] = []

    def play(connection: socket.socket, number: int) -> None:
        assert go_on.wait(60)
        limit = json.loads(endpoint.requests[number - 1].partition(b"\r\n\r\n")[2])["max_tokens"]
        usage = {"cache_creation_input_tokens": 80_000, "output_tokens": limit}
        produced.append(KNOWN_RATES[MODEL].compute_cost(Tokens(written=80_000, output=limit)))
        json_answer(200, {"usage": usage})(connection, number)

    body = message(max_tokens=1000, messages=[{"role": "user", "content": text}])
    raw = json.dumps(body, ensure_ascii=False).encode()
    with RawEndpoint(play) as endpoint, client(endpoint.url, budget_usd=1.0) as agent:
        answers = [pool.submit(agent.ask, raw) for _ in range(8)]
        wait_for(
            lambda: len(endpoint.requests) + sum(map(Future.done, answers)) == 8, "all are sent"
        )
        go_on.set()
        assert {answer.result()[0] for answer in answers} <= {200, 400}
    return sum(produced), max(produced)


def test_a_dense_text_exceeds_the_budget_by_one_answer_at_most() -> None:
    with ThreadPoolExecutor(8) as pool:
        total, dearest = ask_with_dense_text(pool)
    assert total <= 1.0 + dearest


def test_without_the_worst_case_of_a_text_many_answers_exceed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estimate_input = CheckedRequest.estimate_input

    def estimate_usual(checked: CheckedRequest, size: int) -> InputTokens:
        usual = estimate_input(checked, size).usual
        return InputTokens(usual, usual)

    monkeypatch.setattr(CheckedRequest, "estimate_input", estimate_usual)
    with ThreadPoolExecutor(8) as pool:
        total, dearest = ask_with_dense_text(pool)
    assert total > 1.0 + dearest


def find_limit_with_cache(**control: str) -> int:
    """The limit that an answer to 160 kB gets with 60 cents."""
    block = {
        "type": "text",
        "text": "a" * 160_000,
        "cache_control": {"type": "ephemeral", **control},
    }
    body = message(max_tokens=32_000, messages=[{"role": "user", "content": [block]}])
    answer = json_answer(200, {"usage": {"input_tokens": 1, "output_tokens": 1}})
    with RawEndpoint(answer) as endpoint, client(endpoint.url, budget_usd=0.6) as agent:
        assert agent.ask(body)[0] == 200
    sent: int = json.loads(endpoint.requests[0].partition(b"\r\n\r\n")[2])["max_tokens"]
    return sent


def test_an_hour_in_the_cache_is_reserved_at_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """80,000 tokens: $0.30 for five minutes, $0.48 for an hour, of $0.60."""
    short, hour = find_limit_with_cache(), find_limit_with_cache(ttl="1h")
    assert short == pytest.approx(0.3 / 15e-6, rel=0.01)
    assert hour == pytest.approx(0.12 / 15e-6, rel=0.01)
    never = property(lambda traits: False, lambda traits, value: None)
    monkeypatch.setattr(RequestTraits, "cache_1h", never)
    unnoticed = find_limit_with_cache(ttl="1h")
    assert unnoticed == pytest.approx(short, rel=0.01), "without the check: 18 cents too much"


def test_cache_writes_without_a_split_are_billed_by_the_hour() -> None:
    usage = {"cache_creation_input_tokens": 1000, "output_tokens": 1}
    split = {**usage, "cache_creation": {"ephemeral_5m_input_tokens": 1000}}
    costs = []
    for reported in (usage, split):
        with (
            RawEndpoint(json_answer(200, {"usage": reported})) as endpoint,
            client(endpoint.url) as agent,
        ):
            assert agent.ask(message(cache_control={"type": "ephemeral", "ttl": "1h"}))[0] == 200
            costs.append(usd(agent.gateway.usage(agent.ticket)) - 15e-6)
    assert costs == [about(1000 * 6e-6), about(1000 * 3.75e-6)]


DEAR: dict[str, object] = {
    "service_tier": "priority",
    "speed": "fast",
    "inference_geo": "us",
    "container": "c1",
    "mcp_servers": [{"type": "url", "url": "https://evil.example"}],
    "n": 8,
    "best_of": 8,
    "audio": {"voice": "a"},
    "modalities": ["audio"],
    "prediction": {"type": "content", "content": "x" * 1000},
    "prompt_cache_retention": "24h",
    "background": True,
    "web_search_options": {},
    "plugins": [{"id": "web"}],
    "logprobs": True,
    "fallbacks": [{"model": "dear"}],
}
"""Fields of a request that cost more, or that nobody has heard of."""


def test_fields_that_cost_more_are_not_forwarded() -> None:
    """All three interfaces leave them out or refuse the request."""
    messages = [{"role": "user", "content": "Hello"}]
    interfaces = (
        ("ANTHROPIC_API_KEY", MODEL, "/v1/messages", message()),
        ("OPENAI_API_KEY", "gpt", "/v1/chat/completions", {"model": "gpt", "messages": messages}),
        ("OPENAI_API_KEY", "gpt", "/v1/responses", {"model": "gpt", "input": "Hello"}),
    )
    answer = json_answer(200, {"usage": {"input_tokens": 1, "output_tokens": 1}})
    for variable, model, path, body in interfaces:
        with (
            RawEndpoint(answer) as endpoint,
            client(endpoint.url, variable=variable, models=(model,), budget_tokens=10**6) as agent,
        ):
            for name, value in DEAR.items():
                assert agent.ask({**body, name: value}, path)[0] in (200, 400), name
            agent.ask({**body, "stream": True, "stream_options": {"include_usage": False}}, path)
        for request in endpoint.requests:
            sent = json.loads(request.partition(b"\r\n\r\n")[2])
            assert not DEAR.keys() & sent.keys(), sent
            limits = {"max_tokens", "max_completion_tokens", "max_output_tokens"}
            assert len(limits & sent.keys()) == 1, "each answer has a limit"
            assert sent.get("stream_options", {"include_usage": True}) == {"include_usage": True}


def read_tokens(usage: Mapping[str, object]) -> Tokens:
    meter = Meter(Api.OPENAI, stream=False, longest=10_000)
    meter.feed(json.dumps({"usage": usage}).encode())
    return meter.end().tokens


def test_reasoning_and_writes_of_other_providers_are_counted() -> None:
    """Some report reasoning in the total alone; cache writes are part of the input."""
    reasoning = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 705}
    assert read_tokens(reasoning) == Tokens(input=100, output=605)
    details = {"cached_tokens": 30, "cache_write_tokens": 60}
    cached = {"input_tokens": 100, "output_tokens": 5, "input_tokens_details": details}
    assert read_tokens(cached) == Tokens(input=10, output=5, written=60, cached=30)


def test_codexs_own_models_have_the_prices_of_their_list() -> None:
    cost = KNOWN_RATES["gpt-6.1-sol"].compute_cost
    million = 1_000_000
    assert cost(Tokens(input=272_000)) == about(0.544)
    assert cost(Tokens(output=million)) == about(10)
    assert cost(Tokens(input=million, output=million)) == about(4 + 15)
    assert cost(Tokens(written=million)) == about(5)
    assert cost(Tokens(cached=million)) == about(0.2)
    assert KNOWN_RATES["gpt-6-luna"].compute_cost(Tokens(input=1000, cached=1000)) == about(0.00011)


def test_a_long_input_has_a_price_of_its_own() -> None:
    price = Price(input=2, output=10, long=LongPrice(above=200_000, input=4, output=15))
    rates = merge_rates({"gpt": price})
    cost = rates["gpt"].compute_cost
    assert cost(Tokens(input=200_000, output=1000)) == about(0.41)
    assert cost(Tokens(input=100_000, cached=100_001, output=1000)) == about(0.815004)
    one = Account("analyze", frozenset({"gpt"}), "p", rates, SpendingLimit(2.0))
    reserved = one.reserve("gpt", InputTokens(300_000, 300_000), 100_000)
    assert reserved.max_output == int((2.0 - 0.3 * 5) / 15e-6)
