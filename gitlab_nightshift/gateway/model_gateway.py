"""The model gateway: holds the key, serves the agents' base URL, counts and limits their usage.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio
import contextlib
import socket
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from gitlab_nightshift.gateway.connections import (
    AnswerReceiver,
    BodyReader,
    Connections,
    build_error_response,
)
from gitlab_nightshift.gateway.control_messages import BeadTicket
from gitlab_nightshift.gateway.cost_account import Account, Budget
from gitlab_nightshift.gateway.exchange import (
    CHAT,
    MODELS,
    AgentRequest,
    EndpointState,
    Exchange,
    find_route,
)
from gitlab_nightshift.gateway.forward import open_session, read_start
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.model_list import build_models_answer, parse_contexts, pick_context
from gitlab_nightshift.gateway.prices import KNOWN_RATES, Rates
from gitlab_nightshift.gateway.request_body import JsonObject, RequestRefusal, read_object
from gitlab_nightshift.gateway.upstream import Api, Upstream, make_placeholder
from gitlab_nightshift.records.events import Emit
from gitlab_nightshift.records.usage import SpendingLimit, Usage

REQUESTS_PER_BEAD = 16
"""At a time."""
LIST_S, LIST_BYTES = 10.0, 1024 * 1024
"""Seconds that the endpoint's list of models may take, and its size."""


class Gateway:
    """The gateway within an event loop, from ``start`` to ``stop``.

    ``emit`` gets events for the log; ``rates`` are prices by model (:func:`merge_rates`);
    ``run_budget`` is what all beads together may use.
    """

    def __init__(
        self,
        upstream: Upstream,
        emit: Emit,
        *,
        rates: Mapping[str, Rates] = KNOWN_RATES,
        limits: GatewayLimits | None = None,
        run_budget: Budget | None = None,
    ) -> None:
        self._upstream, self._rates, self._run_budget = upstream, rates, run_budget or Budget()
        self._limits = limits or GatewayLimits()
        self._endpoint = EndpointState(emit)
        self._bodies = BodyReader(self._limits)
        self._open_requests: dict[Account, dict[asyncio.Task[Any], AnswerReceiver]] = {}
        self._exchange: Exchange | None = None
        self._connections: Connections | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The base URL for agents."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def unusable(self) -> str:
        """Why no bead can go on (the endpoint refuses the key, or stays overloaded), "" if they
        can."""
        return self._endpoint.unusable

    async def start(self, unix_socket: socket.socket | None = None) -> int:
        """Listen on loopback, and on a bound UNIX socket whose clients may name any host; returns
        the port. Raises ``E_CONFIG`` if a CA file cannot be read, ``OSError``."""
        session = open_session(self._upstream, self._limits)
        self._exchange = Exchange(session, self._upstream, self._endpoint, self._limits)
        self._connections = Connections(self._handle, self._limits)
        self._port = await self._connections.listen(unix_socket)
        return self._port

    async def stop(self) -> None:
        """End all beads and connections, and bill the worst case of unknown usage."""
        for account in self._endpoint.accounts.values():
            account.closed = True
        for account in list(self._open_requests):
            await self._drain(account, 0)
            await self._end_requests(account)
        if self._connections:
            await self._connections.close()
        if self._exchange:
            await self._exchange.session.close()
        for account in self._endpoint.accounts.values():
            account.settle_all()

    def open_bead(
        self,
        bead: str,
        models: Collection[str],
        *,
        budget_usd: float | None,
        budget_tokens: int | None = None,
    ) -> BeadTicket:
        """Let a bead use these models within its budget and what is left of the run's."""
        placeholder = make_placeholder(self._upstream.api)
        account = Account(
            bead,
            frozenset(models),
            placeholder,
            self._rates,
            SpendingLimit(budget_usd, budget_tokens),
            self._run_budget,
        )
        self._endpoint.accounts[placeholder] = account
        return BeadTicket(bead, placeholder, self.url)

    async def drain_bead(self, placeholder: str, wait_s: float) -> bool:
        """Refuse a bead's later requests, and give its unfinished answers ``wait_s`` seconds. True
        if all came to their end."""
        account = self._endpoint.accounts[placeholder]
        account.closed = True
        return await self._drain(account, wait_s)

    async def close_bead(self, placeholder: str) -> Usage:
        """End a bead's requests and return its usage, with the worst case of what is unknown."""
        await self.drain_bead(placeholder, 0)
        account = self._endpoint.accounts[placeholder]
        await self._end_requests(account)
        account.settle_all()
        return account.read_usage()

    def find_account(self, placeholder: str) -> Account | None:
        """A bead's account, also once it is closed; None if this gateway never served it."""
        return self._endpoint.accounts.get(placeholder)

    def list_accounts(self) -> tuple[Account, ...]:
        """All beads, the oldest first."""
        return tuple(self._endpoint.accounts.values())

    async def _drain(self, account: Account, wait_s: float) -> bool:
        """Pass nothing more on to a bead's agent, but read the endpoint's answers to their end, for
        ``wait_s`` seconds at most. True if all ended, so that their usage is known."""
        open_requests = dict(self._open_requests.get(account, {}))
        for receiver in open_requests.values():
            receiver.disconnect()
        if not open_requests:
            return True
        # Unlike wait_for, asyncio.wait cancels nothing when its time is up.
        _, pending = await asyncio.wait(open_requests, timeout=wait_s)
        return not pending

    async def _end_requests(self, account: Account) -> None:
        tasks = list(self._open_requests.get(account, {}))
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._limits.stop_s)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve a request in a task of its own: it goes on if the agent hangs up, as its answer is
        billed either way."""
        receiver = AnswerReceiver(request, self._limits.agent_stalled_s)
        try:
            # Shielded: aiohttp cancels the handler of an agent that has hung up
            # (handler_cancellation).
            return await asyncio.shield(asyncio.create_task(self._serve_request(request, receiver)))
        except asyncio.CancelledError:
            receiver.disconnect()
            raise

    async def _serve_request(
        self, request: web.BaseRequest, receiver: AnswerReceiver
    ) -> web.StreamResponse:
        account = None
        try:
            if (request.method, request.raw_path) == ("HEAD", "/"):
                return web.Response()  # a CLI checks whether the server is up
            account = self._find_account(request)
            return await self._answer_request(request, receiver, account)
        except RequestRefusal as refusal:
            self._endpoint.warn_bead(account, refusal.message)
            return build_error_response(self._upstream.api, refusal)
        except Exception as error:
            self._endpoint.warn_bead(account, f"the model gateway failed: {type(error).__name__}")
            fault = RequestRefusal("the model gateway failed", 500, "api_error")
            return build_error_response(self._upstream.api, fault)

    def _find_account(self, request: web.BaseRequest) -> Account:
        """The bead whose placeholder the request carries, and nothing else as a key."""
        # Two different keys are refused: which one counts would depend on who reads the request.
        keys = list(request.headers.getall("X-Api-Key", ()))
        for value in request.headers.getall("Authorization", ()):
            kind, _, token = value.partition(" ")
            keys.append(token.strip() if kind.lower() == "bearer" else "")
        key = keys[0].encode("utf-8", "replace") if len(set(keys)) == 1 else b""
        running = self._endpoint.list_running()
        accounts = [account for account in running if account.has_placeholder(key)]
        if not accounts:
            raise RequestRefusal("no running bead has this key", 401, "authentication_error")
        return accounts[0]

    async def _answer_request(
        self, request: web.BaseRequest, receiver: AnswerReceiver, account: Account
    ) -> web.StreamResponse:
        if (request.method, request.raw_path.partition("?")[0]) == ("GET", MODELS):
            return web.json_response(await self._build_models_answer(account))
        route, query = find_route(self._upstream.api, request.method, request.raw_path)
        assert self._exchange
        with self._track_request(account, receiver):
            async with self._bodies.open_body(request) as raw:
                checked = route.check(read_object(raw, self._limits), account.models)
                size = len(raw)
                del raw  # free the memory while the answer arrives
                agent_request = AgentRequest(
                    request, receiver, account, route, query, checked, size
                )
                return await self._exchange.run(agent_request)

    async def _build_models_answer(self, account: Account) -> JsonObject:
        assert self._exchange
        if self._endpoint.contexts is None:
            self._endpoint.contexts = await _ask_for_contexts(
                self._exchange.session, self._upstream
            )
        listed = self._endpoint.contexts
        contexts = {model: pick_context(listed, model) or 0 for model in account.models}
        refused = [field for path, field in self._endpoint.refused_fields if path == CHAT and field]
        return build_models_answer(self._upstream.api, contexts, refused)

    @contextlib.contextmanager
    def _track_request(self, account: Account, receiver: AnswerReceiver) -> Iterator[None]:
        """Track a request by its bead: when a bead is closed, its requests are awaited or
        cancelled."""
        task = asyncio.current_task()
        assert task
        open_requests = self._open_requests.setdefault(account, {})
        if len(open_requests) >= REQUESTS_PER_BEAD:
            raise RequestRefusal(
                "too many requests from this bead at a time", 429, "rate_limit_error"
            )
        open_requests[task] = receiver
        try:
            yield
        finally:
            del open_requests[task]
            if not open_requests:
                self._open_requests.pop(account, None)


async def _ask_for_contexts(session: aiohttp.ClientSession, upstream: Upstream) -> dict[str, int]:
    """The endpoint's context sizes in tokens by model; empty if it does not tell."""
    if upstream.api is not Api.OPENAI:
        return {}
    try:
        async with (
            asyncio.timeout(LIST_S),
            session.get(
                URL(upstream.build_url(MODELS), encoded=True),
                headers={"Accept-Encoding": "identity", **upstream.build_headers("")},
                proxy=upstream.proxy or None,
                allow_redirects=False,
            ) as response,
        ):
            if response.status != 200:
                return {}
            return parse_contexts(await read_start(response, LIST_BYTES))
    except (aiohttp.ClientError, TimeoutError, OSError):
        return {}
