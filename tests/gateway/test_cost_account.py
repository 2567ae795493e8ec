"""Budgets: what is reserved, what is billed, and that neither exceeds them."""

import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.gateway.answer_reader import Meter, ReportedUsage
from gitlab_nightshift.gateway.anthropic import check_messages
from gitlab_nightshift.gateway.cost_account import Account, compute_billed_tokens
from gitlab_nightshift.gateway.openai import check_responses
from gitlab_nightshift.gateway.prices import KNOWN_RATES, Rates, Tokens, merge_rates
from gitlab_nightshift.gateway.request_body import InputTokens, RequestRefusal
from gitlab_nightshift.gateway.upstream import Api
from gitlab_nightshift.records.usage import SpendingLimit, Usage
from gitlab_nightshift.settings.setting_groups import Price
from tests.gateway.tools import MODEL, RawEndpoint, about, client, json_answer, message
from tests.support.model_endpoint import ModelEndpoint
from tests.support.trees import wait_for
from tests.support.turns import costing, say


def account(usd: float | None, tokens: int | None = None) -> Account:
    return Account("analyze", frozenset({MODEL}), "p", KNOWN_RATES, SpendingLimit(usd, tokens))


def text(tokens: int, most: int | None = None) -> InputTokens:
    return InputTokens(tokens, most or tokens)


def test_the_expected_cost_is_reserved() -> None:
    one = account(1.0)
    reserved = one.reserve(MODEL, text(1001), 10_000)
    assert (reserved.max_output, reserved.tokens.total) == (10_000, 11_001)
    assert reserved.usd == about((1001 * 3.75 + 10_000 * 15) / 1_000_000)
    assert one.read_usage() == Usage(0.0, 0)
    one.settle(reserved, Tokens(input=10, output=20))
    assert one.read_usage() == Usage(about((10 * 3 + 20 * 15) / 1_000_000), 30)


def test_an_answer_is_limited_to_the_remaining_budget() -> None:
    one = account(0.3)
    assert one.reserve(MODEL, text(51), 64_000).max_output == 19_987
    with pytest.raises(RequestRefusal, match="budget"):
        one.reserve(MODEL, text(51), 64_000)
    assert one.exhausted


def test_a_short_answer_needs_little_budget() -> None:
    assert account(0.01).reserve(MODEL, text(100), 100).max_output == 100
    with pytest.raises(RequestRefusal):
        account(0.01).reserve(MODEL, text(100), 5000)
    with pytest.raises(RequestRefusal):
        account(0.01).reserve(MODEL, text(4000), 10)


def test_an_image_counts_by_its_tokens_not_by_its_bytes() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": "A" * 4_000_000}
    content = [{"type": "image", "source": image}, {"type": "text", "text": "x"}]
    checked = check_messages(message(messages=[{"role": "user", "content": content}]), {MODEL})
    assert checked.estimate_input(4_000_200) == InputTokens(5_101, 6_200)
    url = {"type": "input_image", "image_url": f"data:image/png;base64,{image['data']}"}
    body = {"model": "gpt", "input": [{"role": "user", "content": [url]}]}
    assert check_responses(body, {"gpt"}).estimate_input(4_000_200).usual < 50_101


def test_a_budget_in_tokens() -> None:
    one = account(None, 10_000)
    assert one.reserve(MODEL, text(1001), None).max_output == 8_999
    with pytest.raises(RequestRefusal):
        one.reserve(MODEL, text(10), 10)


def test_without_a_budget_nothing_is_limited() -> None:
    assert account(None).reserve(MODEL, text(100), None).max_output is None
    assert account(None).reserve(MODEL, text(100), 500_000).max_output == 500_000


def test_an_unknown_price_is_an_unknown_cost() -> None:
    with pytest.raises(RequestRefusal, match="no price is known for other"):
        account(5.0).reserve("other", text(100), 1000)
    one = account(5.0, 5000)
    reserved = one.reserve("other", text(100), 1000)
    assert one.read_usage() == Usage(0.0, 0)
    assert one.compute_worst_case() == Usage(None, 1100, 0.0, 1100), "nor is a pending one free"
    one.settle(reserved, Tokens(input=5))
    assert one.read_usage() == Usage(None, 5)


@given(st.lists(st.tuples(st.integers(0, 50_000), st.integers(1, 70_000)), max_size=30))
def test_reservations_never_exceed_the_budget(requests: list[tuple[int, int]]) -> None:
    one, reservations = account(1.0, 200_000), []
    for size, limit in requests:
        try:
            reservations.append(one.reserve(MODEL, text(size), limit))
        except RequestRefusal:
            continue
    assert sum(each.usd for each in reservations) <= 1.0
    assert sum(each.tokens.total for each in reservations) <= 200_000
    for reserved in reservations:
        assert reserved.max_output
        one.settle(reserved, reserved.worst_case)
    assert (one.read_usage().cost_usd or 0) <= 1.0 + 1e-9


def test_prices() -> None:
    rates = merge_rates({"gpt": Price(input=2, output=8), MODEL: Price(input=1, output=2)})
    assert rates["gpt"] == Rates(2, 8, 2.5, 2.5, 2)
    assert rates[MODEL] == Rates(1, 2, 1.25, 2, about(0.1))
    assert rates["claude-opus-4-6"] == Rates(5, 25, 6.25, 10, 0.5)
    assert KNOWN_RATES[MODEL] == Rates(3, 15, 3.75, 6, about(0.3))
    assert (
        Rates(3, 15, 3.75, 6, 0.3).compute_cost(Tokens(10**6, 10**6, 10**6, 10**6, 10**6)) == 28.05
    )


def test_unreported_usage_is_billed_at_its_worst_case() -> None:
    worst_case = Tokens(written=1001, output=10)
    for reported, final, assumed in (
        (Tokens(cached=7, output=5), True, Tokens()),
        (Tokens(cached=7, output=5), False, Tokens(output=5)),
        (Tokens(output=5), True, Tokens(written=1001)),
        (Tokens(), False, worst_case),
    ):
        usage = ReportedUsage(reported, final)
        assert compute_billed_tokens(worst_case, usage) == (reported, assumed)


def metered(api: Api, stream: bool, *chunks: bytes, longest: int = 10_000) -> Tokens:
    meter = Meter(api, stream, longest)
    for chunk in chunks:
        meter.feed(chunk)
    return meter.end().tokens


def test_the_meter_reads_events_that_are_cut_anywhere() -> None:
    raw = (
        b'event: message_start\r\ndata: {"type":"message_start","message":{"usage":{"input_tokens":'
        b'7,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_1h_input_tokens":4},'
        b'"cache_read_input_tokens":3,"output_tokens":1}}}\r\n\r\ndata: {"type":"message_delta",'
        b'"usage":{"output_tokens":50}}\n\n'
    )
    expected = Tokens(input=7, output=50, written=5, written_1h=4, cached=3)
    for at in range(len(raw)):
        assert metered(Api.ANTHROPIC, True, raw[:at], raw[at:]) == expected
    assert metered(Api.ANTHROPIC, True, *(bytes([b]) for b in raw)) == expected
    assert metered(Api.ANTHROPIC, True, raw.rstrip(b"\n")) == expected


def test_the_meter_skips_what_is_too_long() -> None:
    usage = b'data: {"usage":{"input_tokens":5,"output_tokens":6}}\n'
    long = b'data: {"delta":"' + b"x" * 20_000 + b'"}\n'
    assert metered(Api.ANTHROPIC, True, long, usage).total == 11
    assert metered(Api.ANTHROPIC, False, b" " * 20_000, b"{}") == Tokens()
    assert metered(Api.ANTHROPIC, False, b'{"usage":{"input_tokens":5}}').input == 5


def test_parallel_requests_do_not_overspend() -> None:
    """Twelve at a time, each of which would fit alone; the answers use all of their limits."""
    go_on = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        assert go_on.wait(60)
        raw = endpoint.requests[number - 1]
        limit = int(raw.partition(b'"max_tokens":')[2].partition(b",")[0].rstrip(b"}"))
        usage = {"input_tokens": 50, "output_tokens": limit}
        json_answer(200, {"usage": usage})(connection, number)

    with RawEndpoint(play) as endpoint, client(endpoint.url, budget_usd=1.0) as agent:
        with ThreadPoolExecutor(12) as pool:
            body = message(max_tokens=20_000)
            pending = [pool.submit(agent.ask, body) for _ in range(12)]
            wait_for(lambda: len(endpoint.requests) == 4, "four are forwarded")
            wait_for(lambda: sum(map(Future.done, pending)) == 8, "the others are refused")
            go_on.set()
        answers: list[Any] = [answer.result() for answer in pending]
        usage = agent.gateway.usage(agent.ticket)
        assert usage.cost_usd is not None
        assert 0.9 < usage.cost_usd <= 1.0
        assert agent.gateway.is_exhausted(agent.ticket)
    codes = sorted(code for code, _ in answers)
    assert codes == [200] * 4 + [400] * 8
    refused = next(answer for code, answer in answers if code == 400)
    assert "budget is reached" in refused["error"]["message"]


def test_too_many_requests_of_one_bead() -> None:
    go_on = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        go_on.wait(60)
        json_answer(200, {"usage": {"input_tokens": 1, "output_tokens": 1}})(connection, number)

    with RawEndpoint(play) as endpoint, client(endpoint.url) as agent:
        with ThreadPoolExecutor(20) as pool:
            pending = [pool.submit(agent.ask, message(max_tokens=10)) for _ in range(20)]
            wait_for(lambda: len(endpoint.requests) == 16, "sixteen are forwarded")
            wait_for(lambda: sum(map(Future.done, pending)) == 4, "the others are refused")
            go_on.set()
        assert sorted(answer.result()[0] for answer in pending) == [200] * 16 + [429] * 4


def test_a_limit_is_lowered_with_its_thinking() -> None:
    turn = costing(say("Hi"), input_tokens=10, output_tokens=10)
    body = message(max_tokens=32_000, thinking={"type": "enabled", "budget_tokens": 31_999})
    for usd, thinking in (
        (0.1, {"type": "enabled", "budget_tokens": 3323}),
        (0.02, {"type": "disabled"}),
    ):
        with ModelEndpoint([turn]) as endpoint, client(endpoint.url, budget_usd=usd) as agent:
            assert agent.ask(body)[0] == 200
        sent = endpoint.messages[0].body
        assert sent["thinking"] == thinking
        assert sent["max_tokens"] < 32_000
