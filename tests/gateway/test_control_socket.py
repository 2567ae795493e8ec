"""The gateway with hostile work: whatever work requests, the run's limits hold."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway import control_messages, control_socket
from gitlab_nightshift.gateway import gateway_client as module
from gitlab_nightshift.gateway.control_messages import BeadTicket
from gitlab_nightshift.gateway.control_socket import CALLS_PER_ANSWER, MOST_NOTES, ControlServer
from gitlab_nightshift.gateway.gateway_client import GatewayGone, RemoteGateway
from gitlab_nightshift.gateway.gateway_config import GatewayConfig
from gitlab_nightshift.gateway.prices import KNOWN_RATES
from gitlab_nightshift.gateway.upstream import ModelKey, build_upstream
from gitlab_nightshift.gateway.usage_reports import UsageReader, UsageWriter
from gitlab_nightshift.records.events import Event, Note
from gitlab_nightshift.records.usage import (
    MOST_CALLS,
    SpendingLimit,
    ToolUse,
    Usage,
    add_usage,
    build_tool_call,
)
from tests.gateway.tools import KEY, MODEL, RawEndpoint, about, ask, hang, json_answer, message
from tests.support.loops import LoopThread
from tests.support.trees import wait_for

ANSWER = {"type": "message", "usage": {"input_tokens": 1000, "output_tokens": 100_000}}
"""It costs 1.503 USD."""


def config(url: str, **fields: Any) -> GatewayConfig:
    upstream = build_upstream(ModelKey("ANTHROPIC_API_KEY", KEY), url, {})
    limit, models = SpendingLimit(2.0), (MODEL, "unpriced")
    base = GatewayConfig(upstream, KNOWN_RATES, 1.0, limit, models, ("example.org",))
    return replace(base, **fields)


@dataclass
class Served:
    """A gateway; ``link`` is its client's end of the control socket, ``report`` its pipe."""

    inner: ControlServer
    thread: LoopThread
    link: socket.socket
    report: int
    folder: Path

    @property
    def remote(self) -> RemoteGateway:
        return RemoteGateway(self.link, self.emitted.append)

    def __post_init__(self) -> None:
        self.emitted: list[Event] = []

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.emitted if isinstance(event, Note)]

    def read_reports(self) -> tuple[Usage, ...]:
        """The usage that was reported since the last call."""
        reader = UsageReader()
        with contextlib.suppress(BlockingIOError):
            reader.feed(os.read(self.report, 1 << 20))
        return reader.list_usage()

    def serve_model(self) -> RemoteGateway:
        remote = self.remote
        remote.listen("model", self.folder / "gateway")
        return remote


@contextlib.contextmanager
def served(folder: Path, config: GatewayConfig) -> Iterator[Served]:
    server_end, link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read, write = os.pipe()
    os.set_blocking(read, False)
    thread = LoopThread("gateway", lambda name: None)
    reports = UsageWriter(write)
    inner = ControlServer(server_end, config, lambda: reports.write(inner.list_usage()))
    with ThreadPoolExecutor(1) as pool, server_end, link:
        serving = pool.submit(thread.run, inner.serve(), 300)
        try:
            yield Served(inner, thread, link, read, folder)
        finally:
            thread.run(_end(inner), 60)
            serving.result(60)
            thread.stop()
            os.close(read)
            os.close(write)


async def _end(inner: ControlServer) -> None:
    inner.ended.set()


@pytest.fixture
def endpoint() -> Iterator[RawEndpoint]:
    with RawEndpoint(json_answer(200, ANSWER)) as endpoint:
        yield endpoint


@pytest.fixture
def gateway(tmp_path: Path, endpoint: RawEndpoint) -> Iterator[Served]:
    with served(tmp_path, config(endpoint.url)) as gateway:
        yield gateway


def spend(ticket: BeadTicket, most: int = 100_000) -> int:
    """The status of a request whose answer can cost 1.503 USD."""
    return ask(ticket, message(max_tokens=most))


def test_tool_calls_are_listed_in_several_messages(tmp_path: Path) -> None:
    """As many and as long as there can be; calls in an agent's own requests do not count."""
    calls = [
        {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": f"{n}é" * 200}}
        for n in range(MOST_CALLS + 7)
    ]
    with (
        RawEndpoint(json_answer(200, {**ANSWER, "content": calls})) as endpoint,
        served(tmp_path, config(endpoint.url)) as gateway,
    ):
        remote = gateway.serve_model()
        ticket = remote.open_bead("one", {MODEL}, budget_usd=2.0)
        assert remote.list_calls(ticket) == ToolUse("gateway")
        invented = {"type": "tool_use", "id": "x", "name": "Bash", "input": {"command": "lie"}}
        hello = {"role": "user", "content": "Hello"}
        messages = [hello, {"role": "assistant", "content": [invented]}, hello]
        assert ask(ticket, message(messages=messages)) == 200
        remote.close_bead(ticket)
        tool_use = remote.list_calls(ticket)
        assert tool_use is not None
        assert (len(tool_use.calls), tool_use.more) == (MOST_CALLS, 7)
        names = [(call.call_id, call.subject) for call in tool_use.calls]
        assert names == [(f"t{n}", (f"{n}é" * 200)[:300]) for n in range(MOST_CALLS)]


def test_no_bead_gets_more_than_the_budget_of_the_run(
    gateway: Served, endpoint: RawEndpoint
) -> None:
    """Beads that ask for a thousand dollars, or for no limit, share the two dollars of the run."""
    remote = gateway.serve_model()
    rich = remote.open_bead("rich", {MODEL}, budget_usd=1000.0, budget_tokens=10**9)
    boundless = remote.open_bead("boundless", {MODEL}, budget_usd=None)
    idle = remote.open_bead("idle", {MODEL}, budget_usd=1.0)
    assert [spend(ticket) for ticket in (rich, boundless, rich, boundless)] == [200, 200, 400, 400]
    first, second = (json.loads(raw.partition(b"\r\n\r\n")[2]) for raw in endpoint.requests)
    assert first["max_tokens"] == 100_000
    assert 30_000 < second["max_tokens"] < 34_000, "what is left of two dollars"
    states = {ticket.bead: remote.read_state(ticket) for ticket in (rich, boundless, idle)}
    assert [state.exhausted for state in states.values()] == [True, True, False]
    usage = remote.close_bead(rich)
    assert usage == states["rich"].usage == Usage(about(1.503), 101_000)
    first_bead, *others = gateway.read_reports()
    assert first_bead == usage
    assert add_usage(others).tokens == 101_000


def test_parallel_requests_of_all_beads_share_the_budget_of_the_run(tmp_path: Path) -> None:
    with (
        RawEndpoint(lambda connection, _: hang(connection)) as endpoint,
        served(tmp_path, config(endpoint.url)) as gateway,
        ThreadPoolExecutor(4) as pool,
    ):
        remote = gateway.serve_model()
        tickets = [remote.open_bead(f"b{i}", {MODEL}, budget_usd=1000.0) for i in range(4)]
        answers = [pool.submit(spend, ticket) for ticket in tickets]
        wait_for(lambda: sum(map(Future.done, answers)) == 2, "two are refused")
        wait_for(lambda: len(endpoint.requests) == 2, "the others are forwarded")
        assert sum(remote.read_state(ticket).exhausted for ticket in tickets) == 2
        usd = sum(remote.close_bead(ticket).cost_usd or 0.0 for ticket in tickets)
        reported = add_usage(gateway.read_reports())
    assert 1.9 < usd < 2.02
    assert reported.assumed_usd == reported.cost_usd == about(usd)


def test_no_budget_of_a_bead_makes_a_model_without_a_price_free(gateway: Served) -> None:
    remote = gateway.serve_model()
    ticket = remote.open_bead("b", {"unpriced"}, budget_usd=None, budget_tokens=10**9)
    assert ask(ticket, message(model="unpriced")) == 400


def test_other_models_are_refused(gateway: Served) -> None:
    remote = gateway.serve_model()
    for models in ({"claude-opus-4-6"}, {MODEL, "claude-opus-4-6"}):
        with pytest.raises(NightshiftError, match="serves no model claude-opus-4-6") as caught:
            remote.open_bead("b", models, budget_usd=1.0)
        assert caught.value.code is Code.POLICY_DENY
    assert remote.open_bead("b", {MODEL}, budget_usd=1.0), "the gateway goes on"


def test_without_an_endpoint_or_hosts_nothing_is_served(tmp_path: Path) -> None:
    bare = config("http://127.0.0.1:9", upstream=None, egress_hosts=())
    with served(tmp_path, bare) as gateway:
        for service in ("model", "egress", "anything"):
            with pytest.raises(NightshiftError, match=f"serves no {service}"):
                gateway.remote.listen(service, tmp_path / service)
        with pytest.raises(NightshiftError, match="opens no host"):
            gateway.remote.open_egress("b")
        with pytest.raises(NightshiftError, match="serves no model"):
            gateway.remote.open_bead("b", {MODEL}, budget_usd=1.0)


def test_each_service_starts_once(gateway: Served) -> None:
    remote = gateway.serve_model()
    with pytest.raises(NightshiftError, match="serves no model"):
        remote.listen("model", gateway.folder / "again")


def test_the_number_of_beads_is_limited(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "MOST_BEADS", 3)
    remote = gateway.serve_model()
    remote.listen("egress", gateway.folder / "egress")
    for number in range(3):
        remote.open_bead(f"b{number}", {MODEL}, budget_usd=1.0)
        remote.open_egress(f"b{number}")
    with pytest.raises(NightshiftError, match="too many beads"):
        remote.open_bead("b", {MODEL}, budget_usd=1.0)
    with pytest.raises(NightshiftError, match="opens no host"):
        remote.open_egress("b")


BEAD = {
    "do": "OpenBead",
    "bead": "b",
    "models": [MODEL],
    "budget_usd": 1,
    "budget_tokens": None,
}
INVALID: list[bytes | dict[str, Any]] = [
    b"garbage",
    b"\xff\x00",
    b"[" * 60_000,
    b"[]",
    b"7",
    b"x" * (control_messages.LONGEST_MESSAGE + 1),
    {},
    {"do": None},
    {"do": ["ReadState"]},
    {"do": "serve"},
    {"do": "ControlRequest"},
    {"do": "__init__"},
    {"do": "ReadState"},
    {"do": "ReadState", "placeholder": "unknown"},
    {"do": "ReadState", "placeholder": 7},
    {"do": "ReadState", "placeholder": "b\nb"},
    {"do": "ReadState", "placeholder": "b" * 201},
    {"do": "CloseBead", "placeholder": "unknown", "wait_s": 0},
    {"do": "CloseBead", "placeholder": "b"},
    {"do": "CloseEgress", "credential": "unknown"},
    {"do": "OpenEgress", "bead": "b", "more": 1},
    {"do": "Listen", "service": "model"},
    BEAD | {"models": []},
    BEAD | {"models": "all"},
    BEAD | {"models": [MODEL] * 17},
    BEAD | {"models": [7]},
    BEAD | {"budget_usd": "1"},
    BEAD | {"budget_usd": True},
    BEAD | {"budget_usd": 1e300},
    BEAD | {"budget_tokens": 1.5},
    BEAD | {"budget_tokens": 10**30},
    json.dumps(BEAD).replace('"budget_usd": 1', '"budget_usd": NaN').encode(),
    json.dumps(BEAD).replace('"budget_usd": 1', '"budget_usd": -Infinity').encode(),
]


def test_an_invalid_request_ends_the_gateway(tmp_path: Path) -> None:
    failures = []
    for number, request in enumerate(INVALID):
        folder = tmp_path / str(number)
        folder.mkdir()
        with served(folder, config("http://127.0.0.1:9")) as gateway:
            gateway.serve_model()
            assert gateway.link.send(json.dumps(BEAD).encode())
            assert b"placeholder" in gateway.link.recv(control_messages.LONGEST_MESSAGE)
            assert not gateway.inner.ended.is_set(), "a valid request is answered"
            data = request if isinstance(request, bytes) else json.dumps(request).encode()
            gateway.link.send(data)
            try:
                wait_for(gateway.inner.ended.is_set, "its end", 5)
            except AssertionError:
                failures.append(request)
    assert failures == []


def test_a_descriptor_that_is_no_listening_unix_socket_is_refused(tmp_path: Path) -> None:
    failures = []
    for make in (_file, _tcp, _connected):
        folder = tmp_path / make.__name__
        folder.mkdir()
        with served(folder, config("http://127.0.0.1:9")) as gateway:
            descriptor = make()
            message = json.dumps({"do": "Listen", "service": "model"}).encode()
            socket.send_fds(gateway.link, [message], [descriptor])
            os.close(descriptor)
            gateway.link.settimeout(0.05)
            answer = _receive(gateway)
            if not gateway.inner.ended.is_set() and b'"error"' not in answer:
                failures.append(make.__name__)
    assert failures == []


def _receive(gateway: Served) -> bytes:
    """The gateway's answer, b"" if it ends instead."""
    answers: list[bytes] = []

    def has_answered() -> bool:
        with contextlib.suppress(TimeoutError):
            answers.append(gateway.link.recv(control_messages.LONGEST_MESSAGE))
        return bool(answers) or gateway.inner.ended.is_set()

    wait_for(has_answered, "an answer, or the end")
    return b"".join(answers)


def _file() -> int:
    return os.open("/dev/null", os.O_RDONLY)


def _tcp() -> int:
    return socket.socket(socket.AF_INET).detach()


def _connected() -> int:
    one, other = socket.socketpair()
    other.close()
    return one.detach()


def test_a_flood_of_requests_ends_the_gateway(gateway: Served) -> None:
    """Requests cannot pile up: a client has to read each answer before it sends the next one."""
    message = json.dumps({"do": "OpenEgress", "bead": "b"}).encode()
    gateway.link.setblocking(False)

    def flood() -> bool:
        with contextlib.suppress(BlockingIOError):
            while not gateway.inner.ended.is_set():
                gateway.link.send(message)
        return gateway.inner.ended.is_set()

    wait_for(flood, "its end")


@contextlib.contextmanager
def pending(folder: Path) -> Iterator[tuple[Served, RemoteGateway, BeadTicket, Future[int]]]:
    """A bead with a pending request to an endpoint that never answers."""
    with (
        RawEndpoint(lambda connection, _: hang(connection)) as endpoint,
        served(folder, config(endpoint.url)) as gateway,
        ThreadPoolExecutor(1) as pool,
    ):
        remote = gateway.serve_model()
        ticket = remote.open_bead("b", {MODEL}, budget_usd=2.0)
        answer = pool.submit(spend, ticket)
        wait_for(lambda: endpoint.requests, "the request is forwarded")
        yield gateway, remote, ticket, answer


def test_a_bead_that_is_closed_with_pending_answers(tmp_path: Path) -> None:
    """Its worst case is billed and reported; later requests are refused."""
    with pending(tmp_path) as (gateway, remote, ticket, answer):
        assert remote.read_state(ticket).usage == Usage(0.0, 0)
        usage = remote.close_bead(ticket)
        assert usage.assumed_usd == usage.cost_usd == pytest.approx(1.51, abs=0.02)
        assert remote.close_bead(ticket, 60) == usage, "closed again"
        assert answer.result() != 200
        assert spend(ticket) == 401
        assert gateway.read_reports() == (usage,)


def test_a_long_wait_for_answers_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.3)
    go_on = threading.Event()

    def list_waits(gateway: Served) -> list[str]:
        return [text for text in gateway.notes if "waiting for the end of an answer" in text]

    def hold(connection: socket.socket, number: int) -> None:
        go_on.wait(60)

    with (
        RawEndpoint(hold) as endpoint,
        served(tmp_path, config(endpoint.url)) as gateway,
        ThreadPoolExecutor(3) as pool,
    ):
        remote = gateway.serve_model()
        tickets = [remote.open_bead(bead, {MODEL}, budget_usd=2.0) for bead in ("short", "long")]
        answers = [pool.submit(spend, ticket) for ticket in tickets]
        wait_for(lambda: len(endpoint.requests) == 2, "the requests are forwarded")
        remote.close_bead(tickets[0], 0.1)
        assert list_waits(gateway) == [], "it was short"
        closing = pool.submit(remote.close_bead, tickets[1], 60)
        wait_for(lambda: list_waits(gateway), "it is reported")
        go_on.set()
        closing.result(60)
        assert [answer.result() for answer in answers] != [200, 200]
        [text] = list_waits(gateway)
        assert text.startswith("model gateway, long: waiting for the end of an answer, ")


def test_the_worst_case_of_a_pending_request_is_reported(tmp_path: Path) -> None:
    """So the cost is known even if the gateway dies."""
    with pending(tmp_path) as (gateway, remote, ticket, answer):
        [usage] = gateway.read_reports()
        assert usage.cost_usd == usage.assumed_usd == pytest.approx(1.51, abs=0.02)
        remote.close_bead(ticket)
        answer.result()


def test_the_end_of_work_settles_all_requests(tmp_path: Path) -> None:
    with pending(tmp_path) as (gateway, _, _, answer):
        gateway.link.close()
        wait_for(gateway.inner.ended.is_set, "its end")
        answer.exception()
        assert gateway.inner._gateway
        [account] = gateway.inner._gateway.list_accounts()
        wait_for(lambda: account.read_usage().assumed_tokens, "the worst case is billed")


def test_notes_are_kept_until_they_are_fetched_and_bounded(gateway: Served) -> None:
    remote = gateway.serve_model()
    for number in range(MOST_NOTES + 10):
        gateway.inner.keep_note(Note(f"{number} " + "x" * 2000))
    ticket = remote.open_bead("b", {MODEL}, budget_usd=1.0)
    for _ in range(MOST_NOTES):
        remote.read_state(ticket)
    assert len(gateway.notes) == MOST_NOTES
    assert max(map(len, gateway.notes)) == 500
    assert gateway.notes[-1].startswith(f"{MOST_NOTES - 1} ")


def test_the_longest_calls_and_notes_fit_into_a_message_in_any_script(gateway: Served) -> None:
    """Escapes would need three times as many bytes."""
    remote, wide = gateway.serve_model(), chr(0x20000)
    ticket = remote.open_bead("b", {MODEL}, budget_usd=1.0)
    assert gateway.inner._gateway
    log = gateway.inner._gateway.list_accounts()[0].log
    for number in range(CALLS_PER_ANSWER):
        log.add(build_tool_call(wide * 100, {"command": wide * 300}, f"{number}" + wide * 99))
        gateway.inner.keep_note(Note(f"{number} " + wide * 2000))
    tool_use = remote.list_calls(ticket)
    assert tool_use is not None
    assert tool_use.calls == tuple(log.calls)
    assert len(gateway.notes) == CALLS_PER_ANSWER


def test_refusals_of_agents_become_notes(gateway: Served) -> None:
    remote = gateway.serve_model()
    ticket = remote.open_bead("b", {MODEL}, budget_usd=1.0)
    assert ask(ticket, message(model="claude-opus-4-6")) == 400
    remote.read_state(ticket)
    [note] = gateway.emitted
    assert isinstance(note, Note)
    assert note.warning
    assert note.text.startswith("model gateway, b: ")


def test_a_full_pipe_of_reports_does_not_block(gateway: Served) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 4096)
    ticket = gateway.serve_model().open_bead("b", {MODEL}, budget_usd=2.0)
    assert spend(ticket) == 200
    usage, reports = gateway.inner.list_usage(), UsageWriter(write)
    assert not reports.write(usage), "written the next time"
    os.read(read, 1 << 20)
    assert reports.write(usage)
    os.close(read)
    os.close(write)


def test_a_signal_in_the_middle_of_an_answer(gateway: Served) -> None:
    """The conversation ends, as the next answer would belong to an earlier request."""
    remote = gateway.serve_model()
    ticket = remote.open_bead("b", {MODEL}, budget_usd=1.0)
    with pytest.MonkeyPatch.context() as patched:

        def interrupt(link: socket.socket) -> None:
            raise KeyboardInterrupt

        patched.setattr(control_messages, "receive_reply", interrupt)
        with pytest.raises(KeyboardInterrupt):
            remote.read_state(ticket)
    assert remote.read_state(ticket).unusable == "the model gateway has ended"
    with pytest.raises(GatewayGone):
        remote.open_bead("b", {MODEL}, budget_usd=1.0)
