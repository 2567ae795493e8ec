"""The requests of agents: who asks, what is asked, and the answer where it is no model's.

Imports aiohttp: only the gateway's own thread reads this module.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from gitlab_nightshift.host.gateway.account import Account
from gitlab_nightshift.host.gateway.connections import Bodies, Connections
from gitlab_nightshift.host.gateway.exchange import NO_RETRY, Exchange
from gitlab_nightshift.host.gateway.forward import open_session
from gitlab_nightshift.host.gateway.limits import Limits
from gitlab_nightshift.host.gateway.receiver import Receiver
from gitlab_nightshift.host.gateway.refusal import Refusal, error_body
from gitlab_nightshift.host.gateway.routes import MODELS, models_answer, route_of
from gitlab_nightshift.host.gateway.standing import Standing
from gitlab_nightshift.host.gateway.strict_json import read_object
from gitlab_nightshift.host.gateway.upstream import Upstream

REQUESTS_PER_BEAD = 16


class Service:
    """The gateway within its event loop."""

    def __init__(self, upstream: Upstream, standing: Standing, limits: Limits) -> None:
        self._upstream, self._standing, self._limits = upstream, standing, limits
        self._bodies = Bodies(limits)
        self._working: dict[Account, dict[asyncio.Task[Any], Receiver]] = {}
        self._exchange: Exchange | None = None
        self._connections: Connections | None = None

    async def start(self, path: Path | None) -> int:
        """Listen on loopback, and on a UNIX socket where a path is given; the port."""
        session = open_session(self._upstream, self._limits)
        self._exchange = Exchange(session, self._upstream, self._standing, self._limits)
        self._connections = Connections(self._handle, self._limits)
        return await self._connections.listen(path)

    async def stop(self) -> None:
        """End all requests and connections."""
        for account in list(self._working):
            await self.end(account, 0)
        if self._connections:
            await self._connections.close()
        if self._exchange:
            await self._exchange.session.close()

    async def end(self, account: Account, wait_s: float) -> None:
        """End all requests of a bead; what they have used is settled when this returns.

        Answers that are on their way have so many seconds to come to their end.
        """
        working = dict(self._working.get(account, {}))
        for receiver in working.values():
            receiver.leave()
        if not working:
            return
        _, late = await asyncio.wait(working, timeout=wait_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=self._limits.stop_s)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """A request goes on in a task of its own: an agent that hangs up does not end it."""
        receiver = Receiver(request, self._limits.agent_reads_s)
        try:
            return await asyncio.shield(asyncio.create_task(self._served(request, receiver)))
        except asyncio.CancelledError:
            receiver.leave()
            raise

    async def _served(self, request: web.BaseRequest, receiver: Receiver) -> web.StreamResponse:
        account = None
        try:
            if (request.method, request.raw_path) == ("HEAD", "/"):
                return web.Response()  # a CLI looks whether anyone is there
            account = self._account(request)
            return await self._answered(request, receiver, account)
        except Refusal as refusal:
            self._standing.tell(account, refusal.message)
            return self._refused(refusal)
        except Exception as error:
            self._standing.tell(account, f"the model gateway failed: {type(error).__name__}")
            return self._refused(Refusal("the model gateway failed", 500, "api_error"))

    def _refused(self, refusal: Refusal) -> web.Response:
        body = error_body(self._upstream.api, refusal.message, refusal.kind)
        headers = {"content-type": "application/json", **NO_RETRY}
        return web.Response(body=body, status=refusal.status, headers=headers)

    def _account(self, request: web.BaseRequest) -> Account:
        """The bead whose placeholder the request carries, and nothing else as a key."""
        given = [*request.headers.getall("X-Api-Key", ())]
        for value in request.headers.getall("Authorization", ()):
            kind, _, token = value.partition(" ")
            given.append(token.strip() if kind.lower() == "bearer" else "")
        only = given[0].encode("utf-8", "replace") if len(set(given)) == 1 else b""
        found = [account for account in self._standing.accounts() if account.opens(only)]
        if not found:
            raise Refusal("no bead that is running has this key", 401, "authentication_error")
        return found[0]

    async def _answered(
        self, request: web.BaseRequest, receiver: Receiver, account: Account
    ) -> web.StreamResponse:
        if (request.method, request.raw_path.partition("?")[0]) == ("GET", MODELS):
            return web.json_response(models_answer(self._upstream.api, account.models))
        asked = route_of(self._upstream.api, request.method, request.raw_path)
        assert self._exchange
        with self._at_work(account, receiver):
            async with self._bodies.held(request) as raw:
                question = asked[0].check(read_object(raw, self._limits), account.models)
                size = len(raw)
                del raw  # not to be held while the answer comes
                return await self._exchange.run(request, receiver, account, asked, question, size)

    @contextlib.contextmanager
    def _at_work(self, account: Account, receiver: Receiver) -> Iterator[None]:
        task = asyncio.current_task()
        assert task
        tasks = self._working.setdefault(account, {})
        if len(tasks) >= REQUESTS_PER_BEAD:
            raise Refusal("too many requests of this bead at a time", 429, "rate_limit_error")
        tasks[task] = receiver
        try:
            yield
        finally:
            del tasks[task]
            if not tasks:
                self._working.pop(account, None)
