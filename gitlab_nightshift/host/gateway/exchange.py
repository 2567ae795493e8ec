"""One request on its way: set its cost aside, send it on, pass the answer back, settle.

Imports aiohttp: only the gateway's own thread reads this module.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from gitlab_nightshift.host.gateway.account import Account, Reserved
from gitlab_nightshift.host.gateway.anthropic import betas, fit_thinking
from gitlab_nightshift.host.gateway.bill import Bill
from gitlab_nightshift.host.gateway.forward import (
    OVERLOAD,
    REFUSED,
    Abandoned,
    Retries,
    Sent,
    Unreachable,
    answered,
    head_for_agent,
)
from gitlab_nightshift.host.gateway.limits import Limits
from gitlab_nightshift.host.gateway.meter import Meter
from gitlab_nightshift.host.gateway.openai import LIGHT
from gitlab_nightshift.host.gateway.receiver import Receiver
from gitlab_nightshift.host.gateway.refusal import Refusal, error_body, plain
from gitlab_nightshift.host.gateway.routes import Route
from gitlab_nightshift.host.gateway.shape import Question
from gitlab_nightshift.host.gateway.standing import Standing
from gitlab_nightshift.host.gateway.strict_json import write_object
from gitlab_nightshift.host.gateway.upstream import Upstream

AGENT = "nightshift"
VERSION = "2023-06-01"
NO_RETRY = {"x-should-retry": "false"}
HIDDEN = b"[redacted]"


UNTOLD = "the end of an answer was not seen: the most that it can have cost is counted"


class Cut(Exception):
    """An answer that cannot go on: the agent's connection is broken off, not ended well."""


@dataclass(frozen=True)
class Exchange:
    """What all requests share."""

    session: aiohttp.ClientSession
    upstream: Upstream
    standing: Standing
    limits: Limits

    async def run(
        self,
        request: web.BaseRequest,
        receiver: Receiver,
        account: Account,
        asked: tuple[Route, str],
        question: Question,
        size: int,
    ) -> web.StreamResponse:
        """Send a checked request of ``size`` bytes on, and its answer back.

        The answer is read to its end, also where the agent has left before. Raises
        :class:`Refusal` where it does not fit into the budget or there is no answer at all.
        """
        kept, dropped = betas(
            ",".join(request.headers.getall("anthropic-beta", ())), account.models
        )
        self._tell(account, question, dropped)
        reserved = None
        if question.output_key:
            reserved = account.reserve(question.model, question.input(size), question.max_output)
            _limit(question, reserved)
        bill = Bill(account, reserved)
        try:
            sent = _sent(request, asked, question, kept)
            question.body.clear()  # not to be held while the answer comes
            return await self._sent(receiver, account, sent, bill)
        except Abandoned:
            return web.Response()
        except Unreachable as refusal:
            self.standing.give_up(refusal.message)
            raise
        finally:
            bill.settle()
            if bill.assumed:
                self.standing.tell(account, UNTOLD)

    def _tell(self, account: Account, question: Question, dropped: Iterable[str]) -> None:
        for name in (*question.dropped, *(f"anthropic-beta {name}" for name in dropped)):
            self.standing.tell(account, f"{plain(name)} is not known and was left out")
        if question.output_key and not account.priced(question.model):
            text = f"no price is known for {question.model}, so its cost is unknown: set `prices`"
            self.standing.tell(account, text)

    async def _sent(
        self, receiver: Receiver, account: Account, sent: Sent, bill: Bill
    ) -> web.StreamResponse:
        retries = Retries(self.limits, receiver.gone, once=bool(self.standing.unusable))
        async with answered(self.session, self.upstream, sent, retries, bill) as response:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise Refusal("the model endpoint answered in another encoding", 502, "api_error")
            if response.status != 200:
                return await self._fault(response)
            try:
                return await self._relayed(receiver, response, sent, bill)
            except (Cut, aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                why = str(error) if isinstance(error, Cut) else type(error).__name__
                self.standing.tell(account, f"an answer was cut off: {why}")
                receiver.leave()
                return web.Response()
            finally:
                if receiver.slow:
                    self.standing.tell(account, "an answer was cut off: the agent does not read it")

    async def _relayed(
        self, receiver: Receiver, response: aiohttp.ClientResponse, sent: Sent, bill: Bill
    ) -> web.StreamResponse:
        stream = response.content_type == "text/event-stream"
        meter = Meter(self.upstream.api, stream, self.limits.metered_bytes, sent.hour)
        bill.meter = meter
        guard, total = _Guard(self.upstream.secrets), 0
        await receiver.begin(head_for_agent(response.headers))
        async for chunk in response.content.iter_any():
            total += len(chunk)
            meter.feed(chunk)
            if total > self.limits.answer_bytes:
                raise Cut("it is too large")
            guard.check(chunk)
            await receiver.take(chunk)
            if receiver.gone.is_set() and meter.final:
                break
        bill.settle()
        return await receiver.end()

    async def _fault(self, response: aiohttp.ClientResponse) -> web.Response:
        """An error of the endpoint, handed on once and never with a secret in it."""
        status = response.status
        if status in REFUSED:
            self.standing.give_up(f"the model endpoint refuses the key (HTTP {status})")
            return self._own(status, "the model endpoint refuses the key", "authentication_error")
        if status in OVERLOAD:
            self.standing.give_up(f"the model endpoint is overloaded (HTTP {status})")
        if not 400 <= status <= 599:
            raise Refusal(f"the model endpoint answered with status {status}", 502, "api_error")
        if response.content_type != "application/json":
            return self._own(status, f"the model endpoint answered HTTP {status}", "api_error")
        body = await _read(response, self.limits.error_bytes)
        for secret in self.upstream.secrets:
            body = body.replace(secret, HIDDEN)
        headers = {**head_for_agent(response.headers), **NO_RETRY}
        return web.Response(status=status, body=body, headers=headers)

    def _own(self, status: int, message: str, kind: str) -> web.Response:
        body = error_body(self.upstream.api, message, kind)
        headers = {"content-type": "application/json", **NO_RETRY}
        return web.Response(status=status, body=body, headers=headers)


class _Guard:
    """Looks for a secret in what goes back: an endpoint that echoes its request would tell it."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self._secrets = tuple(secrets)
        self._keep = max(len(secret) for secret in self._secrets) - 1
        self._last = b""

    def check(self, chunk: bytes) -> None:
        """Raise :class:`Cut` at a secret, also where it began in the chunk before."""
        text = self._last + chunk
        if any(secret in text for secret in self._secrets):
            raise Cut("the model endpoint sends the key back")
        self._last = text[-self._keep :] if self._keep else b""


def _limit(question: Question, reserved: Reserved) -> None:
    if reserved.max_output is not None:
        question.body[question.output_key] = reserved.max_output
        fit_thinking(question.body, reserved.max_output)


def _sent(
    request: web.BaseRequest, asked: tuple[Route, str], question: Question, kept: str
) -> Sent:
    route, query = asked
    agent = request.headers.get("User-Agent", "")
    version = request.headers.get("anthropic-version", "")
    return Sent(
        path=route.path,
        query=query,
        body=write_object(question.body),
        betas=kept,
        version=version if re.fullmatch(r"\d{4}-\d\d-\d\d", version) else VERSION,
        agent=agent if re.fullmatch(r"[ -~]{1,200}", agent) else AGENT,
        stream=question.stream,
        light=request.headers.get(LIGHT) == "true",
        hour=question.seen.hour,
    )


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The beginning of a body."""
    found = b""
    with_end = response.content.iter_chunked(most)
    async for chunk in with_end:
        found += chunk
        if len(found) >= most:
            break
    return found[:most]
