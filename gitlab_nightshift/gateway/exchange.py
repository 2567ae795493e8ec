"""Handles one request: find its route, reserve its cost, forward it, pass the answer back, settle.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio
import contextlib
import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from aiohttp import web

from gitlab_nightshift.gateway.answer_reader import CallReader, Meter
from gitlab_nightshift.gateway.anthropic import (
    check_count,
    check_messages,
    filter_betas,
    fit_thinking,
)
from gitlab_nightshift.gateway.connections import NO_RETRY, AnswerReceiver, build_error_response
from gitlab_nightshift.gateway.cost_account import Account, Bill, Reservation
from gitlab_nightshift.gateway.forward import (
    KEY_REFUSED,
    OVERLOADED,
    REDACTED,
    AbandonedRequest,
    ForwardedRequest,
    Retries,
    UnreachableEndpoint,
    open_answer,
    pick_agent_headers,
    read_start,
)
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.openai import LIGHT_HEADER, check_chat, check_responses
from gitlab_nightshift.gateway.request_body import (
    BY_BYTES,
    TOOLS,
    CheckedRequest,
    RefusedFieldError,
    RequestRefusal,
    choose_limit,
    choose_limit_key,
    find_refused_fields,
    quote_text,
    remove_fields,
    write_object,
)
from gitlab_nightshift.gateway.upstream import ANTHROPIC_VERSION, Api, Upstream
from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.text.endpoint_answers import parse_error

MODELS = "/v1/models"
CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Route:
    """A path that is forwarded; ``queries`` are its allowed query strings."""

    path: str
    api: Api
    check: Callable[[Mapping[str, Any], Collection[str]], CheckedRequest]
    queries: tuple[str, ...] = ("",)


_BETA_QUERIES = ("", "beta=true")
_ROUTES = {
    route.path: route
    for route in (
        Route("/v1/messages", Api.ANTHROPIC, check_messages, _BETA_QUERIES),
        Route("/v1/messages/count_tokens", Api.ANTHROPIC, check_count, _BETA_QUERIES),
        Route("/v1/responses", Api.OPENAI, check_responses),
        Route(CHAT, Api.OPENAI, check_chat),
    )
}


def find_route(api: Api, method: str, target: str) -> tuple[Route, str]:
    """The route and the query of a request, by the exact text of its target: nothing is decoded or
    normalized, so any other spelling of a path is unknown. Raises :class:`RequestRefusal` (404)."""
    path, _, query = target.partition("?")
    route = _ROUTES.get(path)
    if method != "POST" or route is None or route.api is not api or query not in route.queries:
        text = f"{quote_text(method, 16)} {quote_text(target)} is no path of the model gateway"
        raise RequestRefusal(text, 404, "not_found_error")
    return route, query


# --- the state of the endpoint --------------------------------------------------------------------


class EndpointState:
    """All beads by their placeholders, and the state of the endpoint.

    ``unusable`` is set once and stays: the endpoint refuses the key, or was overloaded for as long
    as the gateway waits. ``refused_fields`` are pairs of a path and a field that the endpoint
    refuses in requests to it. ``contexts`` are context sizes in tokens by model, None until the
    endpoint was asked.
    """

    def __init__(self, emit: Emit) -> None:
        self.accounts: dict[str, Account] = {}
        self.unusable = ""
        self.refused_fields: set[tuple[str, str]] = set()
        self.contexts: dict[str, int] | None = None
        self._emit, self._reported = emit, set[str]()

    def list_running(self) -> list[Account]:
        """The beads that may still send requests."""
        return [account for account in self.accounts.values() if not account.closed]

    def mark_unusable(self, why: str) -> None:
        """Mark the endpoint as unusable; the first reason is kept."""
        self.unusable = self.unusable or why

    def report_pause(self, account: Account, text: str) -> None:
        """Report that a request waits, each time."""
        self._emit(Note(f"model gateway, {account.bead}: {text}"))

    def warn_once(self, account: Account, text: str) -> None:
        """Warn of an event, once for all beads."""
        if text not in self._reported:
            self._reported.add(text)
            self.warn_bead(account, text)

    def warn_bead(self, account: Account | None, text: str) -> None:
        """Warn of an event, once per bead and text. Without a bead, the caller is unknown: the
        event is attributed to the first running bead."""
        account = account or next(iter(self.list_running()), None)
        if account and account.remember_note(text):
            self._emit(Note(f"model gateway, {account.bead}: {text}", warning=True))


# --- an exchange ----------------------------------------------------------------------------------

AGENT = "nightshift"
NO_END = "the end of an answer was not seen: the most that it can have cost is counted"
NO_USAGE = "this endpoint reports no usage: its tokens are at most the bytes sent and received"


class BrokenAnswer(Exception):
    """An answer that cannot go on. The agent's connection is aborted, so that the agent does not
    take half an answer for a complete one."""


@dataclass(frozen=True)
class AgentRequest:
    """An agent's checked request. ``size`` is that of its body as received, in bytes; ``betas`` are
    the beta features that it may use."""

    http: web.BaseRequest
    receiver: AnswerReceiver
    account: Account
    route: Route
    query: str
    checked: CheckedRequest
    size: int
    betas: str = ""


@dataclass(frozen=True)
class Exchange:
    """Forwards requests and passes their answers back. All requests share these connections, the
    endpoint and its state, and the limits."""

    session: aiohttp.ClientSession
    upstream: Upstream
    endpoint: EndpointState
    limits: GatewayLimits

    async def run(self, request: AgentRequest) -> web.StreamResponse:
        """Forward a request, and pass its answer back.

        The answer is read to its end even if the agent has disconnected. Raises
        :class:`RequestRefusal` if it exceeds the budget, or if there is no answer at all.
        """
        betas = ",".join(request.http.headers.getall("anthropic-beta", ()))
        kept, dropped = filter_betas(betas, request.account.models)
        request = replace(request, betas=kept)
        self._warn_of_omissions(request.account, request.checked, dropped)
        while True:  # each refusal removes one more field, so this ends
            with contextlib.suppress(RefusedFieldError):
                return await self._send_limited(request)

    async def _send_limited(self, request: AgentRequest) -> web.StreamResponse:
        """Forward a request without the fields that the endpoint has refused so far. Raises
        RefusedFieldError if it refuses another one."""
        path, refused = request.route.path, self.endpoint.refused_fields
        key, is_last_key = choose_limit_key(request.checked, path, refused)
        checked, account, reservation, max_bytes = request.checked, request.account, None, None
        if checked.output_key:
            if key == BY_BYTES and not checked.stream:
                raise RequestRefusal("this endpoint limits no answer: ask for a stream")
            tokens = checked.estimate_input(request.size)
            reservation = account.reserve(checked.model, tokens, choose_limit(checked, key))
            max_bytes = reservation.max_output if key == BY_BYTES else None
        omitted = [field for refused_path, field in refused if refused_path == path]
        options = self.upstream.options if path == CHAT else {}
        body = _build_body(checked, key, reservation, omitted, options)
        bill = Bill(account, reservation)
        try:
            forwarded = _build_forwarded_request(request, body)
            del body
            if is_last_key and not checked.optional:
                checked.body.clear()  # nothing can be tried again: free the memory
            refusable = "" if is_last_key else key
            return await self._send_request(request, forwarded, bill, refusable, max_bytes)
        except AbandonedRequest:
            return web.Response()
        except UnreachableEndpoint as refusal:
            self.endpoint.mark_unusable(refusal.message)
            raise
        finally:
            bill.settle()
            if bill.has_no_usage:
                self.endpoint.warn_once(account, NO_USAGE)
            elif bill.has_worst_case:
                self.endpoint.warn_bead(account, NO_END)

    def _warn_of_omissions(
        self, account: Account, checked: CheckedRequest, dropped: Iterable[str]
    ) -> None:
        for name in (*checked.dropped, *(f"anthropic-beta {name}" for name in dropped)):
            self.endpoint.warn_bead(account, f"{quote_text(name)} is not known and was left out")
        if checked.output_key and not account.has_price(checked.model):
            text = f"no price is known for {checked.model}, so its cost is unknown: set `prices`"
            self.endpoint.warn_bead(account, text)

    async def _send_request(
        self,
        request: AgentRequest,
        forwarded: ForwardedRequest,
        bill: Bill,
        key: str,
        max_bytes: int | None,
    ) -> web.StreamResponse:
        """Send a request. ``key`` is the field of its limit, "" if no other one can be tried;
        ``max_bytes`` limits the answer's text, None for no limit."""
        receiver, account = request.receiver, request.account
        report = functools.partial(self.endpoint.report_pause, account)
        once = bool(self.endpoint.unusable)
        retries = Retries(self.limits, receiver.gone, once, report)
        async with open_answer(self.session, self.upstream, forwarded, retries, bill) as opened:
            response, start = opened
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise RequestRefusal(
                    "the model endpoint sent a compressed answer", 502, "api_error"
                )
            if response.status != 200:
                start = start or await read_start(response, self.limits.error_bytes)
                return self._relay_error(response, start, request, key)
            request.checked.body.clear()
            try:
                return await self._relay_answer(receiver, response, forwarded, bill, max_bytes)
            except (BrokenAnswer, aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                why = str(error) if isinstance(error, BrokenAnswer) else type(error).__name__
                self.endpoint.warn_bead(account, f"an answer was cut off: {why}")
                receiver.disconnect()
                return web.Response()
            finally:
                if receiver.slow:
                    self.endpoint.warn_bead(
                        account, "an answer was cut off: the agent does not read it"
                    )

    async def _relay_answer(
        self,
        receiver: AnswerReceiver,
        response: aiohttp.ClientResponse,
        forwarded: ForwardedRequest,
        bill: Bill,
        max_bytes: int | None,
    ) -> web.StreamResponse:
        """Pass an answer to the agent. Raises :class:`BrokenAnswer` if it lacks the protocol's
        closing mark, however cleanly its connection ends, or has more than ``max_bytes`` bytes of
        text."""
        stream = response.content_type == "text/event-stream"
        calls = CallReader(bill.account.log)
        meter = Meter(
            self.upstream.api, stream, self.limits.metered_bytes, forwarded.cache_1h, calls
        )
        bill.meter = meter
        longest = self.limits.answer_bytes if stream else self.limits.metered_bytes
        guard, size, unsent = _SecretGuard(self.upstream.secrets), 0, bytearray()
        await receiver.begin(pick_agent_headers(response.headers))
        while chunk := await self._read_chunk(response, meter):
            size += len(chunk)
            meter.feed(chunk)
            if size > longest:
                raise BrokenAnswer("it is too large")
            if max_bytes is not None and meter.text_bytes > max_bytes:
                raise BrokenAnswer(f"the endpoint takes no limit, and it has {max_bytes} bytes")
            guard.check(chunk)  # before the agent gets it
            if stream:
                bill.reserve_cost()
                await receiver.send(chunk)
            else:
                unsent += chunk  # whether the agent may get it is only known at the end
            if receiver.gone.is_set() and meter.final:  # nobody reads the rest, and it is billed
                break
        meter.end()
        bill.settle()  # before the agent has the end: its next request may follow at once
        if not meter.closed and not receiver.gone.is_set():
            raise BrokenAnswer("the stream ended without its end" if stream else "it is no JSON")
        await receiver.send(bytes(unsent))
        return await receiver.end()

    async def _read_chunk(self, response: aiohttp.ClientResponse, meter: Meter) -> bytes:
        """The next bytes, b"" at the end, even if the connection stays open after the closing
        mark."""
        # A timeout of its own: aiohttp's is lost once it closes the connection for a broken chunk.
        limit_s = self.limits.linger_s if meter.closed else self.limits.silent_s
        try:
            async with asyncio.timeout(limit_s):
                return await response.content.readany()
        except (TimeoutError, aiohttp.ClientError):
            if not meter.closed:
                raise
            return b""

    def _relay_error(
        self, response: aiohttp.ClientResponse, body: bytes, request: AgentRequest, key: str
    ) -> web.Response:
        """Pass an error of the endpoint on, once, with secrets redacted. Raises RefusedFieldError
        if it refuses ``key`` or a field that can be left out."""
        status = response.status
        if status in KEY_REFUSED:
            self.endpoint.mark_unusable(f"the model endpoint refused the key (HTTP {status})")
            return self._build_error(
                status, "the model endpoint refused the key", "authentication_error"
            )
        if status in OVERLOADED:
            self.endpoint.mark_unusable(f"the model endpoint is overloaded (HTTP {status})")
        if not 400 <= status <= 599:
            raise RequestRefusal(
                f"the model endpoint answered with status {status}", 502, "api_error"
            )
        self._remember_refused_fields(status, body.decode("utf-8", "replace"), request, key)
        for secret in self.upstream.secrets:
            body = body.replace(secret, REDACTED)
        if response.content_type != "application/json":
            message = parse_error(body)[1]
            text = f"the model endpoint answered HTTP {status}{': ' if message else ''}{message}"
            return self._build_error(status, text, "api_error")
        headers = {**pick_agent_headers(response.headers), **NO_RETRY}
        return web.Response(status=status, body=body, headers=headers)

    def _remember_refused_fields(
        self, status: int, error: str, request: AgentRequest, key: str
    ) -> None:
        """Remember the fields that an error refuses. Raises RefusedFieldError for a new one: then
        the request can be sent again without it."""
        path, before = request.route.path, self.endpoint.refused_fields
        names = find_refused_fields(status, error, request.checked, key)
        new = {(path, name) for name in names} - before
        self.endpoint.refused_fields = before | new
        if new - {(path, TOOLS)}:
            for name in sorted(names):
                self.endpoint.warn_once(request.account, f"the model endpoint refuses {name}")
            raise RefusedFieldError

    def _build_error(self, status: int, message: str, kind: str) -> web.Response:
        return build_error_response(self.upstream.api, RequestRefusal(message, status, kind))


class _SecretGuard:
    """Searches an answer for secrets: an endpoint that echoes its request would reveal them."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self._secrets = tuple(secrets)
        # A secret may be split over two chunks: keep one byte less than the longest of them.
        self._overlap = max(len(secret) for secret in self._secrets) - 1
        self._last = b""

    def check(self, chunk: bytes) -> None:
        """Raise :class:`BrokenAnswer` for a secret, even one that began in an earlier chunk."""
        text = self._last + chunk
        if any(secret in text for secret in self._secrets):
            raise BrokenAnswer("the model endpoint sends the key back")
        self._last = text[-self._overlap :] if self._overlap else b""


def _build_body(
    checked: CheckedRequest,
    key: str,
    reservation: Reservation | None,
    omitted: Collection[str],
    options: Mapping[str, Any],
) -> bytes:
    """The body to send: its answer limited by ``key`` instead of the client's own limit, without
    the ``omitted`` fields, with the team's ``options``."""
    body = remove_fields(checked.body, omitted) if checked.optional else checked.body
    body = {**body, **options} if options else body
    if reservation and reservation.max_output is not None:
        body = {name: value for name, value in body.items() if name != checked.output_key}
        if key:
            body[key] = reservation.max_output
            fit_thinking(body, reservation.max_output)
    return write_object(body)


def _build_forwarded_request(request: AgentRequest, body: bytes) -> ForwardedRequest:
    headers = request.http.headers
    agent = headers.get("User-Agent", "")
    version = headers.get("anthropic-version", "")
    return ForwardedRequest(
        path=request.route.path,
        query=request.query,
        body=body,
        betas=request.betas,
        # Checked: an agent must not choose other headers by line ends in these.
        version=version if re.fullmatch(r"\d{4}-\d\d-\d\d", version) else ANTHROPIC_VERSION,
        user_agent=agent if re.fullmatch(r"[ -~]{1,200}", agent) else AGENT,
        stream=request.checked.stream,
        light=headers.get(LIGHT_HEADER) == "true",
        cache_1h=request.checked.traits.cache_1h,
    )
