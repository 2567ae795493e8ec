"""Serves agents' requests: authenticates them, routes them, and answers those not for a model.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from gitlab_nightshift.gateway.answer_receiver import AnswerReceiver
from gitlab_nightshift.gateway.connections import BodyReader, Connections
from gitlab_nightshift.gateway.cost_account import Account
from gitlab_nightshift.gateway.endpoint_state import EndpointState
from gitlab_nightshift.gateway.exchange import NO_RETRY, AgentRequest, Exchange
from gitlab_nightshift.gateway.forward import open_session
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.model_contexts import ask_for_contexts
from gitlab_nightshift.gateway.model_list import pick_context
from gitlab_nightshift.gateway.refusal import RequestRefusal, build_error_body
from gitlab_nightshift.gateway.request_body import JsonObject, read_object
from gitlab_nightshift.gateway.routes import CHAT, MODELS, build_models_answer, find_route
from gitlab_nightshift.gateway.upstream import Upstream

REQUESTS_PER_BEAD = 16


class GatewayService:
    """The gateway within its event loop."""

    def __init__(self, upstream: Upstream, endpoint: EndpointState, limits: GatewayLimits) -> None:
        self._upstream, self._endpoint, self._limits = upstream, endpoint, limits
        self._bodies = BodyReader(limits)
        self._working: dict[Account, dict[asyncio.Task[Any], AnswerReceiver]] = {}
        self._exchange: Exchange | None = None
        self._connections: Connections | None = None

    async def start(self, unix: socket.socket | None) -> int:
        """Listen on loopback, and on a UNIX socket that is bound; the port."""
        session = open_session(self._upstream, self._limits)
        self._exchange = Exchange(session, self._upstream, self._endpoint, self._limits)
        self._connections = Connections(self._handle, self._limits)
        return await self._connections.listen(unix)

    async def stop(self) -> None:
        """End all requests and connections."""
        for account in list(self._working):
            await self.drain(account, 0)
            await self.end(account)
        if self._connections:
            await self._connections.close()
        if self._exchange:
            await self._exchange.session.close()

    async def drain(self, account: Account, wait_s: float) -> bool:
        """Let a bead's agents go; answers on their way have ``wait_s`` seconds to come to their
        end. True where all have: what they have used is settled."""
        working = dict(self._working.get(account, {}))
        for receiver in working.values():
            receiver.disconnect()
        late = (await asyncio.wait(working, timeout=wait_s))[1] if working else ()
        return not late

    async def end(self, account: Account) -> None:
        """End all requests of a bead."""
        late = list(self._working.get(account, {}))
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=self._limits.stop_s)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve a request in its own task, which goes on if the agent hangs up."""
        receiver = AnswerReceiver(request, self._limits.agent_reads_s)
        try:
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
            self._endpoint.tell(account, refusal.message)
            return self._build_error_response(refusal)
        except Exception as error:
            self._endpoint.tell(account, f"the model gateway failed: {type(error).__name__}")
            return self._build_error_response(
                RequestRefusal("the model gateway failed", 500, "api_error")
            )

    def _build_error_response(self, refusal: RequestRefusal) -> web.Response:
        body = build_error_body(self._upstream.api, refusal.message, refusal.kind)
        headers = {"content-type": "application/json", **NO_RETRY}
        return web.Response(body=body, status=refusal.status, headers=headers)

    def _find_account(self, request: web.BaseRequest) -> Account:
        """The bead whose placeholder the request carries, and nothing else as a key."""
        # Two different keys are refused: which one counts would depend on the reader.
        given = [*request.headers.getall("X-Api-Key", ())]
        for value in request.headers.getall("Authorization", ()):
            kind, _, token = value.partition(" ")
            given.append(token.strip() if kind.lower() == "bearer" else "")
        only = given[0].encode("utf-8", "replace") if len(set(given)) == 1 else b""
        found = [
            account for account in self._endpoint.list_accounts() if account.has_placeholder(only)
        ]
        if not found:
            raise RequestRefusal("no running bead has this key", 401, "authentication_error")
        return found[0]

    async def _answer_request(
        self, request: web.BaseRequest, receiver: AnswerReceiver, account: Account
    ) -> web.StreamResponse:
        if (request.method, request.raw_path.partition("?")[0]) == ("GET", MODELS):
            return web.json_response(await self._build_models_answer(account))
        route, query = find_route(self._upstream.api, request.method, request.raw_path)
        assert self._exchange
        with self._track_request(account, receiver):
            async with self._bodies.open_body(request) as raw:
                question = route.check(read_object(raw, self._limits), account.models)
                size = len(raw)
                del raw  # free the memory while the answer comes
                asked = AgentRequest(request, receiver, account, route, query, question, size)
                return await self._exchange.run(asked)

    async def _build_models_answer(self, account: Account) -> JsonObject:
        assert self._exchange
        if self._endpoint.contexts is None:
            session = self._exchange.session
            self._endpoint.contexts = await ask_for_contexts(session, self._upstream)
        listed = self._endpoint.contexts
        contexts = {model: pick_context(listed, model) or 0 for model in account.models}
        refused = [name for path, name in self._endpoint.refused_fields if path == CHAT and name]
        return build_models_answer(self._upstream.api, contexts, refused)

    @contextlib.contextmanager
    def _track_request(self, account: Account, receiver: AnswerReceiver) -> Iterator[None]:
        task = asyncio.current_task()
        assert task
        tasks = self._working.setdefault(account, {})
        if len(tasks) >= REQUESTS_PER_BEAD:
            raise RequestRefusal(
                "too many requests from this bead at a time", 429, "rate_limit_error"
            )
        tasks[task] = receiver
        try:
            yield
        finally:
            del tasks[task]
            if not tasks:
                self._working.pop(account, None)
