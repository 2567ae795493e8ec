"""Send a checked request on: retries before the first byte, and what may go back in the headers.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import aiohttp
import tenacity  # noqa: F401 - loaded before the first request, not by it
from yarl import URL

from gitlab_nightshift.gateway.keys import Api
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.openai import LIGHT
from gitlab_nightshift.gateway.refusal import RequestRefusal
from gitlab_nightshift.gateway.request_cost import Bill
from gitlab_nightshift.gateway.upstream import Upstream
from gitlab_nightshift.system.retry import Clock, RemoteFailure, RetryPolicy, parse_retry_after

OVERLOAD = frozenset({429, 502, 503, 529})
REFUSED = frozenset({401, 403})
NEVER_MADE = frozenset({503, 529})
"""Errors above 499 with which no answer was made, whoever says so."""
PERHAPS_MADE = frozenset({408, 499})
"""Errors below 500 with which a proxy on the way says that it has waited in vain."""
PASSED_BACK = ("content-type", "request-id", "x-request-id", "retry-after")
"""Headers of an answer that the agent gets; no cookies, no ids of the account."""
HEADER_BYTES = 32 * 1024


@dataclass(frozen=True)
class ForwardedRequest:
    """A request as it leaves: the path and query are the gateway's own."""

    path: str
    query: str
    body: bytes
    betas: str
    version: str
    agent: str
    stream: bool
    light: bool = False
    hour: bool = False


def open_session(upstream: Upstream, limits: GatewayLimits) -> aiohttp.ClientSession:
    """Connections to the endpoint: no cookies, no environment, nothing unpacked."""
    tls = upstream.build_tls_context() if upstream.has_tls else True
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, limit=limits.connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(
            total=None, connect=limits.connect_s, sock_read=limits.silent_s
        ),
        auto_decompress=False,
        trust_env=False,
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
    )


class UnreachableEndpoint(RequestRefusal, RemoteFailure):
    """No answer at all. ``lasting``: another try can only fail again."""

    def __init__(self, fault: str, lasting: bool) -> None:
        super().__init__(f"the model endpoint cannot be reached: {fault}", 502, "api_error")
        self.lasting = lasting


class OverloadedEndpoint(RemoteFailure):
    """An answer that asks to come again later."""

    lasting = False

    def __init__(self, status: int, retry_after: str) -> None:
        super().__init__(f"the model endpoint is overloaded (HTTP {status})")
        self.retry_after_s = parse_retry_after(retry_after)


class AbandonedRequest(Exception):
    """The agent has left before there was an answer: it is not asked for again."""


@dataclass(frozen=True)
class Retries:
    """When an overloaded endpoint is asked again, unless the agent has ``gone``.

    Once a deadline has passed in vain, later requests have one try each (``once``): the caller
    ends the bead anyway. ``tell`` gets a line before each longer pause.
    """

    limits: GatewayLimits
    gone: asyncio.Event
    once: bool
    tell: Callable[[str], None]
    clock: ClassVar[Clock] = Clock()

    def build_policy(self) -> RetryPolicy:
        """The tries of one request from now on, none sooner than the endpoint asks."""
        limits, until = self.limits, self.clock.now() + (0 if self.once else self.limits.retry_s)
        pauses_s = limits.retry_first_s, limits.retry_longest_s, math.inf
        return RetryPolicy(until, self.clock, *pauses_s, self.tell)

    async def wait(self, seconds: float) -> None:
        """Wait. Raises :class:`AbandonedRequest` where the agent has left meanwhile."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.gone.wait(), seconds)
            raise AbandonedRequest


@contextlib.asynccontextmanager
async def open_answer(
    session: aiohttp.ClientSession,
    upstream: Upstream,
    sent: ForwardedRequest,
    retries: Retries,
    bill: Bill,
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The endpoint's answer, its head read. Each try is owed, unless it is sure to cost nothing.

    Raises UnreachableEndpoint where there is none, RequestRefusal where another try does not fit
    into the budget, :class:`AbandonedRequest`.
    """
    answers: list[aiohttp.ClientResponse] = []

    async def send_once() -> None:
        answers.append(await _send_billed(session, upstream, sent, bill))
        if answers[-1].status in OVERLOAD:
            retry_after = answers[-1].headers.get("Retry-After", "")
            raise OverloadedEndpoint(answers[-1].status, retry_after)

    async def wait(seconds: float) -> None:
        while answers:
            answers.pop().close()
        await retries.wait(seconds)

    with contextlib.suppress(OverloadedEndpoint):  # it lasts: the last answer is handed on
        await retries.build_policy().await_with_retries(
            send_once, lambda failure: not failure.lasting, wait
        )
    with contextlib.closing(answers.pop()) as response:
        yield response


async def _send_billed(
    session: aiohttp.ClientSession, upstream: Upstream, sent: ForwardedRequest, bill: Bill
) -> aiohttp.ClientResponse:
    """One try, and what it may have cost."""
    bill.begin()
    try:
        response = await _send_request(session, upstream, sent)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        if _unsent(error):
            bill.forgive()
        raise UnreachableEndpoint(_describe_error(error), _hopeless(error)) from None
    if _costs_nothing(response):
        bill.forgive()
    return response


async def _send_request(
    session: aiohttp.ClientSession, upstream: Upstream, sent: ForwardedRequest
) -> aiohttp.ClientResponse:
    query = f"?{sent.query}" if sent.query else ""
    return await session.post(
        URL(f"{upstream.base_url}{sent.path}{query}", encoded=True),
        data=sent.body,
        headers=_build_headers(upstream, sent),
        proxy=upstream.proxy or None,
        allow_redirects=False,
    )


def _build_headers(upstream: Upstream, sent: ForwardedRequest) -> dict[str, str]:
    known = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream" if sent.stream else "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": sent.agent,
        **({"anthropic-version": sent.version} if upstream.api is Api.ANTHROPIC else {}),
        **({LIGHT: "true"} if sent.light and upstream.api is Api.OPENAI else {}),
    }
    return {**known, **upstream.build_headers(sent.betas)}


async def read_start(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The beginning of a body."""
    found = b""
    with_end = response.content.iter_chunked(most)
    async for chunk in with_end:
        found += chunk
        if len(found) >= most:
            break
    return found[:most]


def pick_agent_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The part of an answer's headers that goes back."""
    return {name: headers[name] for name in PASSED_BACK if name in headers}


def _unsent(error: Exception) -> bool:
    """True where the request did not get to the endpoint. A connection that breaks later, or stays
    silent, may have cost an answer that is lost."""
    early = (
        *(aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError),
        *(aiohttp.ClientHttpProxyError, aiohttp.InvalidURL),
    )
    return isinstance(error, early)


def _costs_nothing(response: aiohttp.ClientResponse) -> bool:
    """True for an answer that says that none was made: a refused request, an overload, a redirect,
    or a failure that the endpoint itself reports. What another server on the way says of it (a page
    instead of JSON, a timeout) says nothing about what was made behind it."""
    status = response.status
    if status in (500, 502):
        return response.content_type == "application/json"
    return status in NEVER_MADE or (300 <= status <= 498 and status not in PERHAPS_MADE)


def _hopeless(error: Exception) -> bool:
    """True for what no second try mends: a certificate, a name, an answer that is no HTTP."""
    wrong = (aiohttp.ClientSSLError, aiohttp.ClientResponseError, aiohttp.InvalidURL)
    return isinstance(error, wrong)


def _describe_error(error: Exception) -> str:
    """The kind of an error: its text may hold an address with a password."""
    certificate = isinstance(error, aiohttp.ClientConnectorCertificateError)
    return "its certificate is not trusted" if certificate else type(error).__name__
