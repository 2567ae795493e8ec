"""The gateway against a hostile work: whatever it asks, the run's limits hold."""

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

USED = {"input_tokens": 1000, "output_tokens": 100_000}
"""Of an answer: 1.503 USD."""


def config(url: str, **more: Any) -> GatewayConfig:
    way = build_upstream(ModelKey("ANTHROPIC_API_KEY", KEY), url, {})
    made = GatewayConfig(
        way, KNOWN_RATES, 1.0, SpendingLimit(2.0), (MODEL, "unpriced"), ("example.org",)
    )
    return replace(made, **more)


@dataclass
class Served:
    """A gateway that is asked by ``link``; what it reports comes out of ``report``."""

    inner: ControlServer
    thread: LoopThread
    link: socket.socket
    report: int
    folder: Path

    @property
    def remote(self) -> RemoteGateway:
        return RemoteGateway(self.link, self.told.append)

    def __post_init__(self) -> None:
        self.told: list[Event] = []

    @property
    def reported(self) -> UsageReader:
        """What was reported since it was asked last."""
        reader = UsageReader()
        with contextlib.suppress(BlockingIOError):
            reader.feed(os.read(self.report, 1 << 20))
        return reader

    def model(self) -> RemoteGateway:
        remote = self.remote
        remote.listen("model", self.folder / "gateway")
        return remote


@contextlib.contextmanager
def served(folder: Path, made: GatewayConfig) -> Iterator[Served]:
    its, link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read, written = os.pipe()
    os.set_blocking(read, False)
    thread = LoopThread("gateway", lambda name: None)
    reports = UsageWriter(written)
    inner = ControlServer(its, made, lambda: reports.write(inner.list_usage()))
    with ThreadPoolExecutor(1) as pool, its, link:
        serving = pool.submit(thread.run, inner.serve(), 300)
        try:
            yield Served(inner, thread, link, read, folder)
        finally:
            thread.run(_set(inner), 60)
            serving.result(60)
            thread.stop()
            os.close(read)
            os.close(written)


async def _set(inner: ControlServer) -> None:
    inner.ended.set()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Served]:
    usage = {"type": "message", "usage": USED}
    with (
        RawEndpoint(json_answer(200, usage)) as endpoint,
        served(tmp_path, config(endpoint.url)) as made,
    ):
        yield made


def spend(ticket: BeadTicket, most: int = 100_000) -> int:
    """The status of a request whose answer can cost 1.503 USD."""
    return ask(ticket, message(max_tokens=most))


def test_tool_calls_are_listed_in_several_messages(tmp_path: Path) -> None:
    """The longest that there can be, and the agent's own requests add nothing to them."""
    calls = [
        {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": f"{n}é" * 200}}
        for n in range(MOST_CALLS + 7)
    ]
    usage = {"type": "message", "content": calls, "usage": USED}
    with (
        RawEndpoint(json_answer(200, usage)) as endpoint,
        served(tmp_path, config(endpoint.url)) as gateway,
    ):
        remote = gateway.model()
        ticket = remote.open_bead("one", {MODEL}, budget_usd=2.0)
        assert remote.list_calls(ticket) == ToolUse("gateway")
        invented = {"type": "tool_use", "id": "x", "name": "Bash", "input": {"command": "lie"}}
        said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": [invented]}]
        assert ask(ticket, message(messages=[*said, said[0]])) == 200
        remote.close_bead(ticket)
        found = remote.list_calls(ticket)
        assert found is not None
        assert (len(found.calls), found.more) == (MOST_CALLS, 7)
        names = [(call.call_id, call.subject) for call in found.calls]
        assert names == [(f"t{n}", (f"{n}é" * 200)[:300]) for n in range(MOST_CALLS)]


def test_no_bead_gets_more_than_the_budget_of_the_run(tmp_path: Path) -> None:
    """A thousand dollars, and no limit at all: two dollars, as the run's budget says, whichever
    beads ask for them."""
    usage = {"type": "message", "usage": USED}
    with (
        RawEndpoint(json_answer(200, usage)) as endpoint,
        served(tmp_path, config(endpoint.url)) as gateway,
    ):
        remote = gateway.model()
        rich = remote.open_bead("rich", {MODEL}, budget_usd=1000.0, budget_tokens=10**9)
        boundless = remote.open_bead("boundless", {MODEL}, budget_usd=None)
        idle = remote.open_bead("idle", {MODEL}, budget_usd=1.0)
        assert [spend(rich), spend(boundless), spend(rich), spend(boundless)] == [
            200,
            200,
            400,
            400,
        ]
        first, second = (json.loads(raw.partition(b"\r\n\r\n")[2]) for raw in endpoint.requests)
        assert first["max_tokens"] == 100_000
        assert 30_000 < second["max_tokens"] < 34_000, "what the rest of two dollars gives"
        stands = {ticket.bead: remote.read_state(ticket) for ticket in (rich, boundless, idle)}
        assert [s.exhausted for s in stands.values()] == [True, True, False]
        used = remote.close_bead(rich)
        assert used == stands["rich"].usage == Usage(about(1.503), 101_000)
        first_bead, *others = gateway.reported.list_usage()
        assert first_bead == used
        assert add_usage(others).tokens == 101_000


def test_parallel_requests_of_all_beads_share_the_budget_of_the_run(tmp_path: Path) -> None:
    with (
        RawEndpoint(lambda connection, _: hang(connection)) as endpoint,
        served(tmp_path, config(endpoint.url)) as gateway,
        ThreadPoolExecutor(4) as pool,
    ):
        remote = gateway.model()
        beads = [remote.open_bead(f"b{i}", {MODEL}, budget_usd=1000.0) for i in range(4)]
        asked = [pool.submit(spend, each) for each in beads]
        wait_for(lambda: sum(one.done() for one in asked) == 2, "two are refused")
        wait_for(lambda: len(endpoint.requests) == 2, "the others are on their way")
        assert sum(remote.read_state(each).exhausted for each in beads) == 2
        used = [remote.close_bead(each) for each in beads]
        told = add_usage(gateway.reported.list_usage())
    assert 1.9 < sum(each.cost_usd or 0.0 for each in used) < 2.02
    assert told.assumed_usd == told.cost_usd == about(sum(each.cost_usd or 0.0 for each in used))


def test_no_budget_of_a_bead_makes_a_model_without_a_price_free(gateway: Served) -> None:
    remote = gateway.model()
    ticket = remote.open_bead("b", {"unpriced"}, budget_usd=None, budget_tokens=10**9)
    assert ask(ticket, message(model="unpriced")) == 400


def test_other_models_are_refused(gateway: Served) -> None:
    remote = gateway.model()
    for models in ({"claude-opus-4-6"}, {MODEL, "claude-opus-4-6"}):
        with pytest.raises(NightshiftError, match="serves no model claude-opus-4-6") as refused:
            remote.open_bead("b", models, budget_usd=1.0)
        assert refused.value.code is Code.POLICY_DENY
    assert remote.open_bead("b", {MODEL}, budget_usd=1.0), "and it goes on"


def test_without_an_endpoint_or_hosts_nothing_is_served(tmp_path: Path) -> None:
    bare = config("http://127.0.0.1:9", upstream=None, egress_hosts=())
    with served(tmp_path, bare) as gateway:
        for what in ("model", "egress", "anything"):
            with pytest.raises(NightshiftError, match=f"serves no {what}"):
                gateway.remote.listen(what, tmp_path / what)
        with pytest.raises(NightshiftError, match="opens no host"):
            gateway.remote.open_egress("b")
        with pytest.raises(NightshiftError, match="serves no model"):
            gateway.remote.open_bead("b", {MODEL}, budget_usd=1.0)


def test_each_service_starts_once(gateway: Served) -> None:
    remote = gateway.model()
    with pytest.raises(NightshiftError, match="serves no model"):
        remote.listen("model", gateway.folder / "again")


def test_the_number_of_beads_is_limited(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "MOST_BEADS", 3)
    remote = gateway.model()
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
RUDE: list[bytes | dict[str, Any]] = [
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
    for number, rude in enumerate(RUDE):
        folder = tmp_path / str(number)
        folder.mkdir()
        with served(folder, config("http://127.0.0.1:9")) as gateway:
            gateway.model()
            assert gateway.link.send(json.dumps(BEAD).encode())
            assert b"placeholder" in gateway.link.recv(control_messages.LONGEST_MESSAGE), (
                "an honest one is answered"
            )
            assert not gateway.inner.ended.is_set()
            gateway.link.send(rude if isinstance(rude, bytes) else json.dumps(rude).encode())
            try:
                wait_for(gateway.inner.ended.is_set, "its end", 5)
            except AssertionError:
                failures.append(rude)
    assert failures == []


def test_a_descriptor_that_is_no_listening_unix_socket_is_refused(tmp_path: Path) -> None:
    failures = []
    for make in (_file, _tcp, _connected):
        folder = tmp_path / make.__name__
        folder.mkdir()
        with served(folder, config("http://127.0.0.1:9")) as gateway:
            handed = make()
            message = json.dumps({"do": "Listen", "service": "model"}).encode()
            socket.send_fds(gateway.link, [message], [handed])
            os.close(handed)
            gateway.link.settimeout(0.05)
            answer = _answer(gateway)
            if not over(gateway) and b'"error"' not in answer:
                failures.append(make.__name__)
    assert failures == []


def over(gateway: Served) -> bool:
    return gateway.inner.ended.is_set()


def _answer(gateway: Served) -> bytes:
    """What comes back, b"" where the conversation is at its end."""
    found: list[bytes] = []

    def heard() -> bool:
        with contextlib.suppress(TimeoutError):
            found.append(gateway.link.recv(control_messages.LONGEST_MESSAGE))
        return bool(found) or over(gateway)

    wait_for(heard, "an answer, or the end")
    return b"".join(found)


def _file() -> int:
    return os.open("/dev/null", os.O_RDONLY)


def _tcp() -> int:
    return socket.socket(socket.AF_INET).detach()


def _connected() -> int:
    one, other = socket.socketpair()
    other.close()
    return one.detach()


def test_a_flood_of_requests_ends_the_gateway(gateway: Served) -> None:
    """Nothing piles up: whoever reads no answer, or asks before it has come, is left."""
    message = json.dumps({"do": "OpenEgress", "bead": "b"}).encode()
    gateway.link.setblocking(False)

    def flooded() -> bool:
        with contextlib.suppress(BlockingIOError):
            while not over(gateway):
                gateway.link.send(message)
        return over(gateway)

    wait_for(flooded, "its end")


@contextlib.contextmanager
def pending(folder: Path) -> Iterator[tuple[Served, RemoteGateway, BeadTicket, Future[int]]]:
    """A bead whose request is on its way, to an endpoint that never answers."""
    with (
        RawEndpoint(lambda connection, _: hang(connection)) as endpoint,
        served(folder, config(endpoint.url)) as gateway,
        ThreadPoolExecutor(1) as pool,
    ):
        remote = gateway.model()
        ticket = remote.open_bead("b", {MODEL}, budget_usd=2.0)
        asked = pool.submit(spend, ticket)
        wait_for(lambda: endpoint.requests, "the request is on its way")
        yield gateway, remote, ticket, asked


def test_a_bead_that_is_closed_with_pending_answers(tmp_path: Path) -> None:
    """Its worst case is counted, and stands in the report; nothing it asks later goes on."""
    with pending(tmp_path) as (gateway, remote, ticket, asked):
        assert remote.read_state(ticket).usage == Usage(0.0, 0)
        used = remote.close_bead(ticket)
        assert used.assumed_usd == used.cost_usd == pytest.approx(1.51, abs=0.02)
        assert remote.close_bead(ticket, 60) == used, "asked again"
        assert asked.result() != 200
        assert spend(ticket) == 401
        assert gateway.reported.list_usage() == (used,)


def test_a_long_wait_for_answers_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.3)
    go_on = threading.Event()

    def told(gateway: Served) -> list[str]:
        texts = [event.text for event in gateway.told if isinstance(event, Note)]
        return [text for text in texts if "waiting for the end of an answer" in text]

    def hold(connection: socket.socket, number: int) -> None:
        go_on.wait(60)

    with (
        RawEndpoint(hold) as endpoint,
        served(tmp_path, config(endpoint.url)) as gateway,
        ThreadPoolExecutor(3) as pool,
    ):
        remote = gateway.model()
        tickets = [remote.open_bead(bead, {MODEL}, budget_usd=2.0) for bead in ("short", "long")]
        asked = [pool.submit(spend, ticket) for ticket in tickets]
        wait_for(lambda: len(endpoint.requests) == 2, "the requests are on their way")
        remote.close_bead(tickets[0], 0.1)
        assert told(gateway) == []
        closing = pool.submit(remote.close_bead, tickets[1], 60)
        wait_for(lambda: told(gateway), "it is told")
        go_on.set()
        closing.result(60)
        assert [each.result() for each in asked] != [200, 200]
        [text] = told(gateway)
        assert text.startswith("model gateway, long: waiting for the end of an answer, ")


def test_the_worst_case_of_a_pending_request_is_reported(tmp_path: Path) -> None:
    """So that the cost is known where the gateway dies, too."""
    with pending(tmp_path) as (gateway, remote, ticket, asked):
        [used] = gateway.reported.list_usage()
        assert used.cost_usd == used.assumed_usd == pytest.approx(1.51, abs=0.02)
        remote.close_bead(ticket)
        asked.result()


def test_the_end_of_work_settles_all_requests(tmp_path: Path) -> None:
    with pending(tmp_path) as (gateway, _, _, asked):
        gateway.link.close()
        wait_for(gateway.inner.ended.is_set, "its end")
        asked.exception()
        assert gateway.inner._gateway
        [account] = gateway.inner._gateway.list_accounts()
        wait_for(lambda: account.read_usage().assumed_tokens, "the worst case to be counted")


def test_notes_are_kept_until_they_are_fetched_and_bounded(gateway: Served) -> None:
    remote = gateway.model()
    for number in range(MOST_NOTES + 10):
        gateway.inner.keep_note(Note(f"{number} " + "x" * 2000))
    ticket = remote.open_bead("b", {MODEL}, budget_usd=1.0)
    for _ in range(MOST_NOTES):
        remote.read_state(ticket)
    texts = [event.text for event in gateway.told if isinstance(event, Note)]
    assert len(texts) == MOST_NOTES
    assert max(map(len, texts)) == 500
    assert texts[-1].startswith(f"{MOST_NOTES - 1} ")


def test_the_longest_calls_and_notes_fit_into_a_message_in_any_script(gateway: Served) -> None:
    """Escapes would need three times as many bytes."""
    remote, wide = gateway.model(), chr(0x20000)
    ticket = remote.open_bead("b", {MODEL}, budget_usd=1.0)
    assert gateway.inner._gateway
    log = gateway.inner._gateway.list_accounts()[0].log
    for number in range(CALLS_PER_ANSWER):
        log.add(build_tool_call(wide * 100, {"command": wide * 300}, f"{number}" + wide * 99))
        gateway.inner.keep_note(Note(f"{number} " + wide * 2000))
    found = remote.list_calls(ticket)
    assert found is not None
    assert found.calls == tuple(log.calls)
    assert len(gateway.told) == CALLS_PER_ANSWER


def test_refusals_of_agents_become_notes(gateway: Served) -> None:
    remote = gateway.model()
    ticket = remote.open_bead("b", {MODEL}, budget_usd=1.0)
    assert ask(ticket, message(model="claude-opus-4-6")) == 400
    remote.read_state(ticket)
    [note] = gateway.told
    assert isinstance(note, Note)
    assert note.warning
    assert note.text.startswith("model gateway, b: ")


def test_a_full_pipe_of_reports_does_not_block(tmp_path: Path) -> None:
    read, written = os.pipe()
    os.set_blocking(written, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(written, b"x" * 4096)
    usage = {"type": "message", "usage": USED}
    with (
        RawEndpoint(json_answer(200, usage)) as endpoint,
        served(tmp_path, config(endpoint.url)) as one,
    ):
        remote = one.model()
        ticket = remote.open_bead("b", {MODEL}, budget_usd=2.0)
        assert spend(ticket) == 200
        used, reports = one.inner.list_usage(), UsageWriter(written)
        assert not reports.write(used), "written the next time"
        os.read(read, 1 << 20)
        assert reports.write(used)
        os.close(read)
        os.close(written)


def test_a_signal_in_the_middle_of_an_answer(gateway: Served) -> None:
    """Half a conversation is not gone on with: the next answer would be another question's."""
    remote = gateway.model()
    ticket = remote.open_bead("b", {MODEL}, budget_usd=1.0)
    with pytest.MonkeyPatch.context() as patched:

        def interrupted(link: socket.socket) -> None:
            raise KeyboardInterrupt

        patched.setattr(control_messages, "receive_reply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            remote.read_state(ticket)
    assert remote.read_state(ticket).unusable == "the model gateway has ended"
    with pytest.raises(GatewayGone):
        remote.open_bead("b", {MODEL}, budget_usd=1.0)
