"""A budget that fails closed: whatever an agent does, the answers that were produced are billed.

For each defence, a test without it shows that more would be produced than billed.
"""

import asyncio
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from gitlab_nightshift.gateway import cost_account, model_gateway
from gitlab_nightshift.gateway.answer_reader import ReportedUsage
from gitlab_nightshift.gateway.cost_account import NO_TOKENS, Account, Reservation
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.prices import Tokens
from gitlab_nightshift.records.usage import Usage
from tests.gateway.counting import (
    HANG_UPS,
    Provider,
    at_once,
    hang_up,
    has_no_connection,
    has_no_request,
    in_the_stream,
    is_exhausted,
    request_bytes,
    served,
    usd,
)
from tests.gateway.tools import (
    STREAM,
    Client,
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
from tests.support.trees import wait_for


class Unshielded:
    """asyncio without ``shield``, which keeps a request alive when its agent hangs up."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    def shield(task: Any) -> Any:
        return task


@pytest.fixture
def no_shield(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the first defence: a request ends with its agent's connection."""
    monkeypatch.setattr(model_gateway, "asyncio", Unshielded())


@pytest.fixture
def no_worst_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the second one: unreported usage costs nothing."""

    def bill_reported(worst_case: Tokens, usage: ReportedUsage) -> tuple[Tokens, Tokens]:
        return usage.tokens, NO_TOKENS

    monkeypatch.setattr(cost_account, "compute_billed_tokens", bill_reported)
    monkeypatch.setattr(Account, "settle_all", lambda account: None)


# --- hang-ups -----------------------------------------------------------------------------------


def hang_up_in_every_way(provider: Provider) -> Usage:
    """The bill of an agent that hangs up in every way: also on an answer without a stream, and with
    a second request behind the first on the same connection, which is never forwarded."""
    with served(provider) as agent:
        stream = request_bytes(agent, stream=True)
        tries = [(leave, stream) for leave in HANG_UPS]
        tries += [(at_once, request_bytes(agent)), (in_the_stream, 2 * stream)]
        connections = [hang_up(agent, provider, leave, data) for leave, data in tries]
        wait_for(lambda: has_no_connection(agent), "every agent is gone")
        provider.go_on.set()
        wait_for(lambda: has_no_request(agent), "no request is left")
        wait_for(lambda: provider.finished == len(tries), "the endpoint has produced its answers")
        for connection in connections:
            connection.close()
        return agent.gateway.close_bead(agent.ticket)


def test_answers_to_agents_that_hang_up_are_billed_in_full() -> None:
    provider = Provider()
    usage = hang_up_in_every_way(provider)
    assert usd(usage) == about(provider.produced_usd)
    assert usage.assumed_tokens == 0, "every answer was read to its end"


@pytest.mark.usefixtures("no_shield")
def test_answers_that_are_not_read_are_billed_at_their_worst_case() -> None:
    provider = Provider()
    usage = hang_up_in_every_way(provider)
    assert provider.produced_usd <= usd(usage) < 1.2 * provider.produced_usd
    assert usage.assumed_tokens > 7 * 1900


@pytest.mark.usefixtures("no_shield", "no_worst_case")
def test_without_both_defences_hang_ups_are_nearly_free() -> None:
    provider = Provider()
    assert usd(hang_up_in_every_way(provider)) < provider.produced_usd / 20


def hang_up_40_times(provider: Provider) -> int:
    """How often an agent that hangs up at once is served with half a dollar."""
    with served(provider, budget_usd=0.5) as agent:
        while provider.finished < 40 and hang_up_once(agent, provider, provider.finished + 1):
            provider.go_on.clear()
    return provider.finished


def hang_up_once(agent: Client, provider: Provider, number: int) -> bool:
    """False if the budget does not allow it any more."""
    with socket.create_connection(("127.0.0.1", agent.port), 60) as connection:
        connection.sendall(request_bytes(agent, stream=True))
        requests = provider.endpoint.requests
        wait_for(
            lambda: len(requests) == number or is_exhausted(agent), "it is forwarded, or refused"
        )
    wait_for(lambda: has_no_connection(agent), "the agent is gone")
    provider.go_on.set()
    wait_for(lambda: has_no_request(agent), "no request is left")
    wait_for(lambda: provider.finished == len(requests), "the endpoint has produced its answer")
    return not is_exhausted(agent)


def test_hanging_up_again_and_again_ends_with_the_budget() -> None:
    provider = Provider()
    assert hang_up_40_times(provider) < 20
    assert 0.4 < provider.produced_usd <= 0.5


@pytest.mark.usefixtures("no_shield", "no_worst_case")
def test_without_the_defence_a_budget_has_no_end() -> None:
    provider = Provider()
    assert hang_up_40_times(provider) == 40
    assert provider.produced_usd > 2 * 0.5


def read_nothing(limits: GatewayLimits) -> tuple[Usage, list[str]]:
    """The bill and the notes of an agent that stays, and reads nothing of a long stream."""
    done = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(STREAM + events(started(500)))
        for _ in range(300):
            connection.sendall(events(delta("x" * 60_000)))
        connection.sendall(events(ended(1500)))
        done.set()

    with RawEndpoint(play) as endpoint, client(endpoint.url, limits=limits) as agent:
        with socket.create_connection(("127.0.0.1", agent.port), 60) as connection:
            connection.sendall(request_bytes(agent, stream=True))
            wait_for(lambda: endpoint.requests, "the endpoint is asked")
            if limits.agent_stalled_s < 10:
                assert done.wait(60), "the endpoint's answer is read to its end"
                wait_for(lambda: has_no_request(agent), "no request is left")
            usage = agent.gateway.close_bead(agent.ticket)
        return usage, agent.notes


def test_an_agent_that_never_reads_stalls_nothing() -> None:
    usage, notes = read_nothing(GatewayLimits(agent_stalled_s=0.3))
    assert (usage.tokens, usage.assumed_tokens) == (2000, 0)
    assert notes == ["model gateway, analyze: an answer was cut off: the agent does not read it"]


def test_without_a_limit_for_reading_the_worst_case_is_billed() -> None:
    usage, _ = read_nothing(GatewayLimits())
    assert usage.assumed_tokens >= 1999


# --- the end of a bead --------------------------------------------------------------------------


def test_the_end_of_a_bead_waits_for_pending_answers() -> None:
    provider = Provider()
    with served(provider) as agent, ThreadPoolExecutor(1) as pool:
        hang_up(agent, provider, in_the_stream, request_bytes(agent, stream=True))
        closing = pool.submit(agent.gateway.close_bead, agent.ticket, 60)
        wait_for(lambda: not agent.gateway.inner._endpoint.list_running(), "the bead is closed")
        provider.go_on.set()
        usage = closing.result(60)
    assert (usd(usage), usage.assumed_tokens) == (about(provider.produced_usd), 0)


def test_after_the_deadline_the_worst_case_is_billed() -> None:
    provider = Provider()
    with served(provider) as agent:
        for leave in (at_once, in_the_stream):
            hang_up(agent, provider, leave, request_bytes(agent, stream=True))
        usage = agent.gateway.close_bead(agent.ticket, 0)
        assert agent.gateway.usage(agent.ticket) == usage, "later answers add nothing"
    assert usd(usage) >= provider.produced_usd
    assert usage.assumed_tokens > 2 * 1900


def close_without_ending_requests(monkeypatch: pytest.MonkeyPatch) -> float:
    """The bill of a bead whose request does not end when it is cancelled."""
    provider = Provider()
    with served(provider) as agent:
        hang_up(agent, provider, in_the_stream, request_bytes(agent, stream=True))

        async def do_nothing(account: Account) -> None:
            pass

        with monkeypatch.context() as patched:
            patched.setattr(agent.gateway.inner, "_end_requests", do_nothing)
            return usd(agent.gateway.close_bead(agent.ticket))


def test_a_request_that_does_not_end_is_billed_at_its_worst_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert close_without_ending_requests(monkeypatch) > 2000 * 15e-6


@pytest.mark.usefixtures("no_worst_case")
def test_without_the_worst_case_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert close_without_ending_requests(monkeypatch) == 0


def test_no_retry_for_an_agent_that_has_left() -> None:
    overloaded = json_answer(529, {"error": {}}, "Retry-After: 1")
    with RawEndpoint(overloaded) as endpoint, client(endpoint.url) as agent:
        with socket.create_connection(("127.0.0.1", agent.port), 60) as connection:
            connection.sendall(request_bytes(agent))
            wait_for(lambda: endpoint.requests, "the endpoint is asked")
        wait_for(lambda: has_no_request(agent), "no request is left")
        assert agent.gateway.close_bead(agent.ticket) == Usage()
        assert agent.gateway.unusable == ""
    assert len(endpoint.requests) == 1


# --- many at once -------------------------------------------------------------------------------


def ask_16_times_with_a_dollar() -> float:
    """USD that are produced for an agent that sends sixteen requests at once, each for 45 cents."""
    provider = Provider()
    with served(provider, budget_usd=1.0) as agent, ThreadPoolExecutor(16) as pool:
        answers = [pool.submit(agent.ask, message(max_tokens=30_000)) for _ in range(16)]
        sent = provider.endpoint.requests
        wait_for(lambda: len(sent) + sum(map(Future.done, answers)) == 16, "all are sent")
        provider.go_on.set()
        assert {answer.result()[0] for answer in answers} <= {200, 400}
    return provider.produced_usd


def test_many_requests_at_once_share_one_budget() -> None:
    assert 0.9 < ask_16_times_with_a_dollar() <= 1.0


def test_without_reservations_each_request_has_the_whole_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reserve = Account.reserve

    def forget(account: Account, *arguments: Any) -> Reservation:
        reservation = reserve(account, *arguments)
        account.reservations.clear()
        return reservation

    monkeypatch.setattr(Account, "reserve", forget)
    assert ask_16_times_with_a_dollar() > 7
