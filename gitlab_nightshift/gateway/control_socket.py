"""The gateway's side of its control socket: answers the few requests that work may make.

The process at the other end reads agents' files, so an attacker may control it. A request that
honest work never makes ends the conversation, and with it this process.
"""

import asyncio
import dataclasses
import socket
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway import control_messages
from gitlab_nightshift.gateway.cost_account import Budget
from gitlab_nightshift.gateway.egress.company_proxy import make_proxy_chooser
from gitlab_nightshift.gateway.egress.proxy import EgressProxy, ProxyTicket
from gitlab_nightshift.gateway.gateway_config import GatewayConfig
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.model_gateway import Gateway
from gitlab_nightshift.gateway.usage_reports import BEADS
from gitlab_nightshift.records.events import Event, Note
from gitlab_nightshift.records.tool_calls import MOST_CALLS
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.text.lazy_patterns import compile_lazily

MAX_WAIT_S = 0.2
"""Seconds that one answer may take: a client that waits longer asks again."""
NOTES, NOTE_CHARACTERS, NOTES_AT_ONCE = 500, 500, 16
"""Notes that may wait, the length of one, and how many go with an answer."""
CALLS_AT_ONCE = 10
"""Tool calls that go with an answer: even the longest ones fit into a message."""
MOST_HOSTS = 20
"""Hosts of a bead whose traffic is reported: those to which most was sent."""
MODELS, MOST = 16, 1e12
"""Models of one bead; the highest number in a request."""
_NAME = compile_lazily(r"[!-~]{1,200}")


class Control:
    """Answers one request at a time, until ``over`` is set. ``changed`` is called when a bead's
    usage has changed."""

    def __init__(
        self, link: socket.socket, config: GatewayConfig, changed: Callable[[], object]
    ) -> None:
        self._link, self._models = link, config.models
        self._notes: deque[Note] = deque()
        self._gateway: Gateway | None = None
        self._proxy: EgressProxy | None = None
        if config.upstream:
            purse = Budget(config.limit, changed=changed)
            limits = GatewayLimits(retry_s=config.retry_s)
            self._gateway = Gateway(
                config.upstream, self.keep_note, rates=config.rates, limits=limits, purse=purse
            )
        if config.egress_hosts:
            onward = make_proxy_chooser(config.proxies)
            self._proxy = EgressProxy(config.egress_hosts, self.keep_note, onward=onward)
        self._listening: set[str] = set()
        self._tickets: dict[str, ProxyTicket] = {}
        self._busy: asyncio.Task[None] | None = None
        self.over = asyncio.Event()

    def list_usage(self) -> list[Usage]:
        """What each bead so far has used at most."""
        accounts = self._gateway.list_accounts() if self._gateway else ()
        return [account.compute_most() for account in accounts]

    def keep_note(self, event: Event) -> None:
        """Keep a note until it is fetched."""
        if isinstance(event, Note) and len(self._notes) < NOTES:
            self._notes.append(event)

    async def serve(self) -> None:
        """Serve until the other end closes or breaks the protocol, or ``over`` is set."""
        loop = asyncio.get_running_loop()
        self._link.setblocking(False)
        loop.add_reader(self._link, self._receive_question)
        try:
            await self.over.wait()
        finally:
            loop.remove_reader(self._link)
            if self._gateway:
                await self._gateway.stop()
            if self._proxy:
                await self._proxy.stop()

    def _receive_question(self) -> None:
        try:
            message, handed = control_messages.receive(self._link)
        except BlockingIOError:
            return
        except (EOFError, OSError, control_messages.BadMessage):
            self.over.set()
            return
        if self._busy:  # honest work waits for each answer
            self.over.set()
            return
        self._busy = asyncio.get_running_loop().create_task(self._answer(message, handed))

    async def _answer(self, message: dict[str, Any], handed: socket.socket | None) -> None:
        try:
            reply = await self._build_reply(message, handed)
        except Exception as error:
            if handed:
                handed.close()
            if isinstance(error, control_messages.BadMessage):
                self.over.set()
                return
            reply = _build_error_reply(error)
        some = [self._notes.popleft() for _ in range(min(len(self._notes), NOTES_AT_ONCE))]
        notes = [[note.text[:NOTE_CHARACTERS], note.warning] for note in some]
        self._busy = None
        try:
            control_messages.send(self._link, {**reply, "notes": notes})
        except OSError:
            self.over.set()

    async def _build_reply(
        self, message: dict[str, Any], handed: socket.socket | None
    ) -> dict[str, Any]:
        do = message.pop("do", None)
        # The method name comes only from this table: getattr must not reach any other.
        checks = _CALLS.get(do) if isinstance(do, str) else None
        if checks is None or set(message) != set(checks) or (handed is None) == (do == "listen"):
            raise control_messages.BadMessage("not a question")
        values = {name: check(message[name]) for name, check in checks.items()}
        reply: dict[str, Any] = await getattr(self, f"_{do}")(
            **values, **_build_socket_argument(handed)
        )
        return reply

    async def _listen(self, what: str, handed: socket.socket) -> dict[str, Any]:
        service = {"model": self._gateway, "egress": self._proxy}.get(what)
        if service is None or what in self._listening:
            raise _build_refusal(f"the gateway serves no {what}")
        if (handed.family, handed.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
            raise control_messages.BadMessage("no UNIX socket")
        self._listening.add(what)
        return {"port": await service.start(handed)}

    async def _open_bead(
        self,
        bead: str,
        models: list[str],
        budget_usd: float | None,
        budget_tokens: int | None,
    ) -> dict[str, Any]:
        gateway = self._require_gateway()
        if unknown := set(models) - set(self._models):
            raise _build_refusal(f"the gateway serves no model {', '.join(sorted(unknown))}")
        if len(gateway.list_accounts()) >= BEADS:
            raise _build_refusal("the gateway has served too many beads")
        ticket = gateway.open_bead(bead, models, budget_usd=budget_usd, budget_tokens=budget_tokens)
        return {"placeholder": ticket.placeholder, "base_url": ticket.base_url}

    async def _look(self, bead: str) -> dict[str, Any]:
        """A bead's usage so far, and whether it, or the whole run, must stop."""
        gateway = self._require_gateway(bead)
        used = dataclasses.asdict(gateway.read_usage(bead))
        spent = gateway.exhausted(bead)
        return {"usage": used, "exhausted": spent, "unusable": gateway.unusable}

    async def _close_bead(self, bead: str, wait_s: float) -> dict[str, Any]:
        """End a bead. The usage is None while an answer is pending: then the client asks again."""
        gateway = self._require_gateway(bead)
        done = await gateway.drain_bead(bead, min(wait_s, MAX_WAIT_S))
        if not done and wait_s > MAX_WAIT_S:
            return {"usage": None}
        return {"usage": dataclasses.asdict(await gateway.close_bead(bead))}

    async def _list_calls(self, bead: str, start: int) -> dict[str, Any]:
        """Some of the tool calls in a bead's answers, from the one at ``start``."""
        log = self._require_gateway(bead).read_calls(bead)
        some = log.calls[start : start + CALLS_AT_ONCE]
        rows = [[call.tool, call.subject, call.call_id] for call in some]
        return {"calls": rows, "count": len(log.calls), "more": log.more}

    async def _open_egress(self, bead: str) -> dict[str, Any]:
        if self._proxy is None or not self._proxy.port or len(self._tickets) >= BEADS:
            raise _build_refusal("the gateway opens no host")
        ticket = self._proxy.open_bead(bead)
        self._tickets[ticket.credential] = ticket
        return {"credential": ticket.credential, "url": ticket.url}

    async def _close_egress(self, credential: str) -> dict[str, Any]:
        """The hosts to which most was sent, with bytes both ways, and the number of others."""
        if self._proxy is None or credential not in self._tickets:
            raise control_messages.BadMessage("no such bead")
        traffic = await self._proxy.close_bead(self._tickets[credential])
        rows = sorted(traffic.items(), key=lambda row: row[1].sent, reverse=True)
        hosts = [[name, each.sent, each.received] for name, each in rows[:MOST_HOSTS]]
        return {"traffic": hosts, "more": len(rows[MOST_HOSTS:])}

    def _require_gateway(self, bead: str = "") -> Gateway:
        if self._gateway is None or "model" not in self._listening:
            raise _build_refusal("the gateway serves no model")
        if bead and not self._gateway.has_served(bead):
            raise control_messages.BadMessage("no such bead")
        return self._gateway


def _build_error_reply(error: Exception) -> dict[str, Any]:
    if isinstance(error, NightshiftError):
        return {"error": error.message[:NOTE_CHARACTERS], "code": error.code.value}
    text = f"the model gateway failed: {type(error).__name__}"
    return {"error": text, "code": Code.INTERNAL.value}


def _build_refusal(text: str) -> NightshiftError:
    return NightshiftError(Code.POLICY_DENY, text)


def _build_socket_argument(handed: socket.socket | None) -> dict[str, socket.socket]:
    return {"handed": handed} if handed else {}


# --- the values of a request ----------------------------------------------------------------------


def _check_name(value: object) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise control_messages.BadMessage("not a name")


def _check_names(value: object) -> list[str]:
    if isinstance(value, list) and 0 < len(value) <= MODELS:
        return [_check_name(each) for each in value]
    raise control_messages.BadMessage("not names")


def _check_amount(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST:
        return float(value)
    raise control_messages.BadMessage("not an amount")


def _check_limit(value: object) -> float | None:
    return None if value is None else _check_amount(value)


def _check_count(value: object) -> int | None:
    if isinstance(value, float):
        raise control_messages.BadMessage("not a count")
    return None if value is None else int(_check_amount(value))


def _check_start(value: object) -> int:
    if type(value) is int and 0 <= value <= MOST_CALLS:
        return value
    raise control_messages.BadMessage("not a position")


_CALLS: Mapping[str, Mapping[str, Callable[[object], Any]]] = {
    "listen": {"what": _check_name},
    "open_bead": {
        "bead": _check_name,
        "models": _check_names,
        "budget_usd": _check_limit,
        "budget_tokens": _check_count,
    },
    "look": {"bead": _check_name},
    "close_bead": {"bead": _check_name, "wait_s": _check_amount},
    "list_calls": {"bead": _check_name, "start": _check_start},
    "open_egress": {"bead": _check_name},
    "close_egress": {"credential": _check_name},
}
