"""The gateway's side of its control socket: answers the few requests that work may make, until work
closes it.

The process at the other end reads agents' files, so an attacker may control it. A request that
honest work never makes ends the conversation, and with it this process.
"""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway import control_messages as messages
from gitlab_nightshift.gateway.control_messages import BeadTicket, EgressTicket
from gitlab_nightshift.gateway.cost_account import Account, Budget
from gitlab_nightshift.gateway.egress.proxy import EgressProxy
from gitlab_nightshift.gateway.gateway_config import GatewayConfig, make_proxy_chooser
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.model_gateway import Gateway
from gitlab_nightshift.gateway.usage_reports import MOST_BEADS, UsageWriter
from gitlab_nightshift.records.codec import InvalidRecordError, decode_record, to_data
from gitlab_nightshift.records.events import Event, Note
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.privilege_drop import restrict_to
from gitlab_nightshift.sandbox.process_places import find_rights
from gitlab_nightshift.sandbox.process_table import GATEWAY

MAX_WAIT_S = 0.2
"""Seconds that one request waits for a bead's last answers; then the client asks again."""
MOST_NOTES = 500
"""Notes that may wait for an answer."""
NOTE_CHARACTERS = 500
NOTES_PER_ANSWER = 16
CALLS_PER_ANSWER = 10
"""Tool calls: even the longest ones fit into a message."""
MOST_HOSTS = 20
"""Hosts of a bead whose traffic is reported: those to which most was sent."""


class ControlServer:
    """Answers one request at a time, until ``ended`` is set. Calls ``on_usage`` whenever a bead's
    usage changes."""

    def __init__(
        self, link: socket.socket, config: GatewayConfig, on_usage: Callable[[], object]
    ) -> None:
        self._link, self._models = link, config.models
        self._notes: deque[Note] = deque()
        self._gateway: Gateway | None = None
        self._proxy: EgressProxy | None = None
        if config.upstream:
            self._gateway = Gateway(
                config.upstream,
                self.keep_note,
                rates=config.rates,
                limits=GatewayLimits(retry_s=config.retry_s),
                run_budget=Budget(config.limit, on_usage=on_usage),
            )
        if config.egress_hosts:
            choose_proxy = make_proxy_chooser(config.proxies)
            self._proxy = EgressProxy(
                config.egress_hosts, self.keep_note, choose_proxy=choose_proxy
            )
        self._listening: set[str] = set()
        self._tickets: dict[str, EgressTicket] = {}
        self._answering: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()

    def list_usage(self) -> list[Usage]:
        """The most that each bead can have used so far."""
        accounts = self._gateway.list_accounts() if self._gateway else ()
        return [account.compute_worst_case() for account in accounts]

    def keep_note(self, event: Event) -> None:
        """Keep a note for one of the next answers."""
        if isinstance(event, Note) and len(self._notes) < MOST_NOTES:
            self._notes.append(event)

    async def serve(self) -> None:
        """Serve until the other end closes or breaks the protocol, or ``ended`` is set."""
        loop = asyncio.get_running_loop()
        self._link.setblocking(False)
        loop.add_reader(self._link, self._receive)
        try:
            await self.ended.wait()
        finally:
            loop.remove_reader(self._link)
            if self._gateway:
                await self._gateway.stop()
            if self._proxy:
                await self._proxy.stop()

    def _receive(self) -> None:
        try:
            request, attached = messages.receive_request(self._link)
        except BlockingIOError:
            return
        except (EOFError, OSError, InvalidRecordError):
            self.ended.set()
            return
        if self._answering:  # honest work waits for each answer
            self.ended.set()
            return
        self._answering = asyncio.get_running_loop().create_task(self._answer(request, attached))

    async def _answer(
        self, request: messages.ControlRequest, attached: socket.socket | None
    ) -> None:
        result, code, error = None, "", ""
        try:
            result = to_data(await self._serve_request(request, attached))
        except InvalidRecordError:
            self.ended.set()
            return
        except NightshiftError as failure:
            code, error = failure.code.value, failure.message[:NOTE_CHARACTERS]
        except Exception as failure:
            code = Code.INTERNAL.value
            error = f"the model gateway failed: {type(failure).__name__}"
        finally:
            if attached and result is None:
                attached.close()
        oldest = [self._notes.popleft() for _ in range(min(len(self._notes), NOTES_PER_ANSWER))]
        notes = tuple((note.text[:NOTE_CHARACTERS], note.warning) for note in oldest)
        self._answering = None  # before the answer, upon which the next request may come at once
        try:
            messages.send_reply(self._link, messages.GatewayReply(notes, result, code, error))
        except OSError:
            self.ended.set()

    async def _serve_request(
        self, request: messages.ControlRequest, attached: socket.socket | None
    ) -> object:
        result: object = None
        match request:
            case messages.Listen() if attached:
                result = await self._listen(request.service, attached)
            case messages.OpenBead():
                result = self._open_bead(request)
            case messages.ReadState():
                result = self._read_state(request.placeholder)
            case messages.CloseBead():
                result = await self._close_bead(request.placeholder, request.wait_s)
            case messages.ListCalls():
                log = self._require_account(request.placeholder).log
                calls = log.calls[request.start : request.start + CALLS_PER_ANSWER]
                result = messages.SomeCalls(tuple(calls), len(log.calls), log.more)
            case messages.OpenEgress():
                result = self._open_egress(request.bead)
            case messages.CloseEgress():
                result = await self._close_egress(request.credential)
        return result

    async def _listen(self, name: str, attached: socket.socket) -> messages.ListeningPort:
        service = {"model": self._gateway, "egress": self._proxy}.get(name)
        if service is None or name in self._listening:
            raise _build_refusal(f"the gateway serves no {name}")
        if (attached.family, attached.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
            raise InvalidRecordError("it is no UNIX socket")
        self._listening.add(name)
        return messages.ListeningPort(await service.start(attached))

    def _open_bead(self, request: messages.OpenBead) -> BeadTicket:
        gateway = self._require_gateway()
        if unknown := set(request.models) - set(self._models):
            raise _build_refusal(f"the gateway serves no model {', '.join(sorted(unknown))}")
        if len(gateway.list_accounts()) >= MOST_BEADS:
            raise _build_refusal("the gateway has served too many beads")
        usd, tokens = request.budget_usd, request.budget_tokens
        return gateway.open_bead(request.bead, request.models, budget_usd=usd, budget_tokens=tokens)

    def _read_state(self, placeholder: str) -> messages.BeadState:
        account, gateway = self._require_account(placeholder), self._require_gateway()
        return messages.BeadState(account.read_usage(), account.exhausted, gateway.unusable)

    async def _close_bead(self, placeholder: str, wait_s: float) -> messages.ClosedBead:
        self._require_account(placeholder)
        gateway = self._require_gateway()
        # In short waits, so that requests of other beads are answered in between.
        done = await gateway.drain_bead(placeholder, min(wait_s, MAX_WAIT_S))
        if not done and wait_s > MAX_WAIT_S:
            return messages.ClosedBead(None)
        return messages.ClosedBead(await gateway.close_bead(placeholder))

    def _open_egress(self, bead: str) -> EgressTicket:
        if self._proxy is None or not self._proxy.port or len(self._tickets) >= MOST_BEADS:
            raise _build_refusal("the gateway opens no host")
        ticket = self._proxy.open_bead(bead)
        self._tickets[ticket.credential] = ticket
        return ticket

    async def _close_egress(self, credential: str) -> messages.EgressTraffic:
        if self._proxy is None or credential not in self._tickets:
            raise InvalidRecordError("there is no such bead")
        traffic = await self._proxy.close_bead(self._tickets[credential])
        hosts = [(host, count.sent, count.received) for host, count in traffic.items()]
        hosts.sort(key=lambda host: host[1], reverse=True)
        return messages.EgressTraffic(tuple(hosts[:MOST_HOSTS]), len(hosts[MOST_HOSTS:]))

    def _require_gateway(self) -> Gateway:
        if self._gateway is None or "model" not in self._listening:
            raise _build_refusal("the gateway serves no model")
        return self._gateway

    def _require_account(self, placeholder: str) -> Account:
        account = self._require_gateway().find_account(placeholder)
        if account is None:
            raise InvalidRecordError("there is no such bead")
        return account


def _build_refusal(text: str) -> NightshiftError:
    return NightshiftError(Code.POLICY_DENY, text)


# --- the process ----------------------------------------------------------------------------------

REPORT_S = 1.0
"""Seconds after which reports that did not fit into the pipe are written again."""
LAST_REPORT_S = 5.0
"""Seconds that the reader gets for the last reports."""


def serve(config_json: bytes, link: socket.socket, report_pipe: int) -> None:
    """Serve until the client is gone. ``report_pipe`` is the descriptor of the pipe for usage."""
    config = decode_record(GatewayConfig, config_json)
    confine(config)  # before the first byte of an agent is read
    asyncio.run(_serve(config, link, report_pipe))


def confine(config: GatewayConfig) -> None:
    """Keep only the rights of the gateway's row in the process table, and read access to the CA
    files for the model's endpoint. Raises OSError."""
    endpoint = config.upstream
    ca_paths = (*endpoint.ca_files, endpoint.ca_dir) if endpoint else ()
    places = {"named": [str(path) for path in ca_paths if path]}
    restrict_to(find_rights(GATEWAY, places, os.environ))


async def _serve(config: GatewayConfig, link: socket.socket, report_pipe: int) -> None:
    reports, loop = UsageWriter(report_pipe), asyncio.get_running_loop()
    control = ControlServer(link, config, lambda: reports.write(control.list_usage()))

    def note_fault(_: object, context: dict[str, Any]) -> None:
        name = type(context.get("exception")).__name__
        control.keep_note(Note(f"the model gateway failed: {name}", warning=True))

    loop.set_exception_handler(note_fault)
    # A pipe's write end gets ready (POLLERR) once its reader has closed it: poll(2).
    loop.add_reader(report_pipe, control.ended.set)
    reporting = asyncio.create_task(_report_regularly(reports, control))
    await control.serve()
    reporting.cancel()
    loop.remove_reader(report_pipe)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_REPORT_S):
            while not reports.write(control.list_usage()):
                await asyncio.sleep(0.05)


async def _report_regularly(reports: UsageWriter, control: ControlServer) -> None:
    while True:
        await asyncio.sleep(REPORT_S)
        reports.write(control.list_usage())
