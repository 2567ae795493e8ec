"""One request on its way: set its cost aside, send it on, pass the answer back, settle.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from gitlab_nightshift.gateway.answer_receiver import AnswerReceiver
from gitlab_nightshift.gateway.answered_calls import CallReader
from gitlab_nightshift.gateway.anthropic import filter_betas, fit_thinking
from gitlab_nightshift.gateway.cost_account import Account, Reservation
from gitlab_nightshift.gateway.endpoint_state import EndpointState
from gitlab_nightshift.gateway.forward import (
    OVERLOAD,
    REFUSED,
    AbandonedRequest,
    ForwardedRequest,
    Retries,
    UnreachableEndpoint,
    open_answer,
    pick_agent_headers,
)
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.openai import LIGHT
from gitlab_nightshift.gateway.refusal import RequestRefusal, build_error_body, quote_text
from gitlab_nightshift.gateway.request_cost import Bill
from gitlab_nightshift.gateway.routes import Route
from gitlab_nightshift.gateway.shape import CheckedRequest
from gitlab_nightshift.gateway.strict_json import write_object
from gitlab_nightshift.gateway.upstream import Upstream
from gitlab_nightshift.gateway.usage_meter import Meter

AGENT = "nightshift"
VERSION = "2023-06-01"
NO_RETRY = {"x-should-retry": "false"}
HIDDEN = b"[redacted]"


UNTOLD = "the end of an answer was not seen: the most that it can have cost is counted"


class BrokenAnswer(Exception):
    """An answer that cannot go on: the agent's connection is broken off, not ended well."""


@dataclass(frozen=True)
class Exchange:
    """What all requests share."""

    session: aiohttp.ClientSession
    upstream: Upstream
    endpoint: EndpointState
    limits: GatewayLimits

    async def run(
        self,
        request: web.BaseRequest,
        receiver: AnswerReceiver,
        account: Account,
        asked: tuple[Route, str],
        question: CheckedRequest,
        size: int,
    ) -> web.StreamResponse:
        """Send a checked request of ``size`` bytes on, and its answer back.

        The answer is read to its end, also where the agent has left before. Raises
        :class:`RequestRefusal` where it does not fit into the budget or there is no answer at all.
        """
        kept, dropped = filter_betas(
            ",".join(request.headers.getall("anthropic-beta", ())), account.models
        )
        self._tell(account, question, dropped)
        reserved = None
        if question.output_key:
            reserved = account.reserve(
                question.model, question.estimate_input(size), question.max_output
            )
            _apply_limit(question, reserved)
        bill = Bill(account, reserved)
        try:
            sent = _build_forwarded_request(request, asked, question, kept)
            question.body.clear()  # not to be held while the answer comes
            return await self._send_request(receiver, account, sent, bill)
        except AbandonedRequest:
            return web.Response()
        except UnreachableEndpoint as refusal:
            self.endpoint.give_up(refusal.message)
            raise
        finally:
            bill.settle()
            if bill.assumed:
                self.endpoint.tell(account, UNTOLD)

    def _tell(self, account: Account, question: CheckedRequest, dropped: Iterable[str]) -> None:
        for name in (*question.dropped, *(f"anthropic-beta {name}" for name in dropped)):
            self.endpoint.tell(account, f"{quote_text(name)} is not known and was left out")
        if question.output_key and not account.priced(question.model):
            text = f"no price is known for {question.model}, so its cost is unknown: set `prices`"
            self.endpoint.tell(account, text)

    async def _send_request(
        self, receiver: AnswerReceiver, account: Account, sent: ForwardedRequest, bill: Bill
    ) -> web.StreamResponse:
        tell = functools.partial(self.endpoint.tell_pause, account)
        retries = Retries(self.limits, receiver.gone, bool(self.endpoint.unusable), tell)
        async with open_answer(self.session, self.upstream, sent, retries, bill) as response:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise RequestRefusal(
                    "the model endpoint sent a compressed answer", 502, "api_error"
                )
            if response.status != 200:
                return await self._relay_error(response)
            try:
                return await self._relay_answer(receiver, response, sent, bill)
            except (BrokenAnswer, aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                why = str(error) if isinstance(error, BrokenAnswer) else type(error).__name__
                self.endpoint.tell(account, f"an answer was cut off: {why}")
                receiver.leave()
                return web.Response()
            finally:
                if receiver.slow:
                    self.endpoint.tell(account, "an answer was cut off: the agent does not read it")

    async def _relay_answer(
        self,
        receiver: AnswerReceiver,
        response: aiohttp.ClientResponse,
        sent: ForwardedRequest,
        bill: Bill,
    ) -> web.StreamResponse:
        stream = response.content_type == "text/event-stream"
        calls = CallReader(bill.account.log)
        meter = Meter(self.upstream.api, stream, self.limits.metered_bytes, sent.hour, calls)
        bill.meter = meter
        most = self.limits.answer_bytes if stream else self.limits.metered_bytes
        guard, total, kept = _SecretGuard(self.upstream.secrets), 0, bytearray()
        await receiver.begin(pick_agent_headers(response.headers))
        while chunk := await _read_chunk(response, self.limits.silent_s):
            total += len(chunk)
            meter.feed(chunk)
            if total > most:
                raise BrokenAnswer("it is too large")
            guard.check(chunk)
            if stream:
                bill.reserve_cost()
                await receiver.take(chunk)
            else:
                kept += chunk  # nobody knows its cost before its end
            if receiver.gone.is_set() and meter.final:
                break
        bill.settle()
        await receiver.take(bytes(kept))
        return await receiver.end()

    async def _relay_error(self, response: aiohttp.ClientResponse) -> web.Response:
        """An error of the endpoint, handed on once and never with a secret in it."""
        status = response.status
        if status in REFUSED:
            self.endpoint.give_up(f"the model endpoint refused the key (HTTP {status})")
            return self._build_own_error(
                status, "the model endpoint refused the key", "authentication_error"
            )
        if status in OVERLOAD:
            self.endpoint.give_up(f"the model endpoint is overloaded (HTTP {status})")
        if not 400 <= status <= 599:
            raise RequestRefusal(
                f"the model endpoint answered with status {status}", 502, "api_error"
            )
        if response.content_type != "application/json":
            return self._build_own_error(
                status, f"the model endpoint answered HTTP {status}", "api_error"
            )
        body = await _read(response, self.limits.error_bytes)
        for secret in self.upstream.secrets:
            body = body.replace(secret, HIDDEN)
        headers = {**pick_agent_headers(response.headers), **NO_RETRY}
        return web.Response(status=status, body=body, headers=headers)

    def _build_own_error(self, status: int, message: str, kind: str) -> web.Response:
        body = build_error_body(self.upstream.api, message, kind)
        headers = {"content-type": "application/json", **NO_RETRY}
        return web.Response(status=status, body=body, headers=headers)


class _SecretGuard:
    """Looks for a secret in what goes back: an endpoint that echoes its request would reveal it."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self._secrets = tuple(secrets)
        self._keep = max(len(secret) for secret in self._secrets) - 1
        self._last = b""

    def check(self, chunk: bytes) -> None:
        """Raise :class:`BrokenAnswer` at a secret, also where it began in the chunk before."""
        text = self._last + chunk
        if any(secret in text for secret in self._secrets):
            raise BrokenAnswer("the model endpoint sends the key back")
        self._last = text[-self._keep :] if self._keep else b""


def _apply_limit(question: CheckedRequest, reserved: Reservation) -> None:
    if reserved.max_output is not None:
        question.body[question.output_key] = reserved.max_output
        fit_thinking(question.body, reserved.max_output)


def _build_forwarded_request(
    request: web.BaseRequest, asked: tuple[Route, str], question: CheckedRequest, kept: str
) -> ForwardedRequest:
    route, query = asked
    agent = request.headers.get("User-Agent", "")
    version = request.headers.get("anthropic-version", "")
    return ForwardedRequest(
        path=route.path,
        query=query,
        body=write_object(question.body),
        betas=kept,
        version=version if re.fullmatch(r"\d{4}-\d\d-\d\d", version) else VERSION,
        agent=agent if re.fullmatch(r"[ -~]{1,200}", agent) else AGENT,
        stream=question.stream,
        light=request.headers.get(LIGHT) == "true",
        hour=question.traits.hour,
    )


async def _read_chunk(response: aiohttp.ClientResponse, silent_s: float) -> bytes:
    """What has come, b"" at the end. aiohttp's own limit is gone with a connection that it closes
    for a broken chunk."""
    async with asyncio.timeout(silent_s):
        return await response.content.readany()


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The beginning of a body."""
    found = b""
    with_end = response.content.iter_chunked(most)
    async for chunk in with_end:
        found += chunk
        if len(found) >= most:
            break
    return found[:most]
