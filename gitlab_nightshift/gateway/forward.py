"""Forwards a checked request: retries before the first byte, and filters the answer's headers.

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

from gitlab_nightshift.gateway.cost_account import Bill
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.openai import LIGHT_HEADER
from gitlab_nightshift.gateway.request_body import RequestRefusal
from gitlab_nightshift.gateway.upstream import Api, Upstream
from gitlab_nightshift.system.retry import Clock, RemoteFailure, RetryPolicy, parse_retry_after
from gitlab_nightshift.text.endpoint_answers import find_pause_s, is_empty_account, parse_error

OVERLOADED = frozenset({429, 502, 503, 529})
"""Statuses that are worth a retry; 529 is Anthropic's."""
KEY_REFUSED = frozenset({401, 403})
FREE_FAILURES = frozenset({503, 529})
"""Statuses above 499 after which no answer was produced, whichever server reports them."""
# 499 is nginx's own: the client closed the request (ngx_http_request.h).
PROXY_TIMEOUTS = frozenset({408, 499})
"""Statuses below 500 by which a proxy on the way reports that it timed out."""
AGENT_HEADERS = ("content-type", "request-id", "x-request-id", "retry-after")
"""Headers of an answer that the agent gets: no cookies, no account ids."""
HEADER_BYTES = 32 * 1024
REDACTED = b"[redacted]"


@dataclass(frozen=True)
class ForwardedRequest:
    """A request as it is forwarded; path and query are the gateway's own. ``betas`` and ``version``
    are Anthropic's headers, ``light`` is codex's (``LIGHT_HEADER``). With ``cache_1h`` the request
    may write into the cache for an hour."""

    path: str
    query: str
    body: bytes
    betas: str
    version: str
    user_agent: str
    stream: bool
    light: bool = False
    cache_1h: bool = False


def open_session(upstream: Upstream, limits: GatewayLimits) -> aiohttp.ClientSession:
    """Connections to the endpoint: no cookies, no environment, no decompression."""
    tls = upstream.build_tls_context() if upstream.has_tls else True
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, limit=limits.connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(
            total=None, connect=limits.connect_s, sock_read=limits.silent_s
        ),
        auto_decompress=False,
        trust_env=False,  # the proxy is chosen in upstream.py; .netrc must not add credentials
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
    )


class UnreachableEndpoint(RequestRefusal, RemoteFailure):
    """No answer at all. ``lasting``: every retry would fail."""

    def __init__(self, fault: str, *, lasting: bool) -> None:
        super().__init__(f"the model endpoint cannot be reached: {fault}", 502, "api_error")
        self.lasting = lasting


class OverloadedEndpoint(RemoteFailure):
    """An answer that asks to retry later."""

    lasting = False

    def __init__(self, status: int, retry_after_s: float) -> None:
        super().__init__(f"the model endpoint is overloaded (HTTP {status})")
        self.retry_after_s = retry_after_s


class EmptyAccount(UnreachableEndpoint):
    """A refusal (429) about money, in the endpoint's own words: no retry helps."""

    def __init__(self, message: str) -> None:
        text = f"the model endpoint answered HTTP 429: {message}"
        RequestRefusal.__init__(self, text, 429, "billing_error")
        self.lasting = True


class AbandonedRequest(Exception):
    """The agent has disconnected before there was an answer, so nobody needs a retry."""


@dataclass(frozen=True)
class Retries:
    """When to retry at an overloaded endpoint, unless the agent is ``gone``.

    Once the endpoint is unusable, requests have one try each (``once``): the caller ends the bead
    anyway. ``report`` gets a line before each longer pause.
    """

    limits: GatewayLimits
    gone: asyncio.Event
    once: bool
    report: Callable[[str], None]
    clock: ClassVar[Clock] = Clock()

    def build_policy(self) -> RetryPolicy:
        """The retry policy of a request from now on; no retry is sooner than the endpoint asks."""
        limits, until = self.limits, self.clock.now() + (0 if self.once else self.limits.retry_s)
        pauses_s = limits.retry_first_s, limits.retry_longest_s, math.inf
        return RetryPolicy(until, self.clock, *pauses_s, self.report)

    async def wait(self, seconds: float) -> None:
        """Wait. Raises :class:`AbandonedRequest` once the agent disconnects."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.gone.wait(), seconds)
            raise AbandonedRequest


@contextlib.asynccontextmanager
async def open_answer(
    session: aiohttp.ClientSession,
    upstream: Upstream,
    request: ForwardedRequest,
    retries: Retries,
    bill: Bill,
) -> AsyncIterator[tuple[aiohttp.ClientResponse, bytes]]:
    """The endpoint's answer, of which only the head is read, and the start of its body if the
    endpoint is overloaded. A try is billed unless it certainly cost nothing.

    Raises UnreachableEndpoint if there is none, RequestRefusal if a retry exceeds the budget,
    :class:`AbandonedRequest`.
    """
    opened: tuple[aiohttp.ClientResponse, bytes]
    stack = contextlib.ExitStack()  # it closes the answer

    async def send_once() -> None:
        nonlocal opened
        answer = await _send_billed(session, upstream, request, bill)
        stack.callback(answer.close)
        opened = (answer, b"")
        if answer.status in OVERLOADED:
            error = await _read_error(answer, retries.limits, upstream)
            opened = (answer, error)
            pause_s = _find_pause_s(answer.headers, error)
            if answer.status == 429 and not pause_s and is_empty_account(error):
                raise EmptyAccount(parse_error(error)[1])
            raise OverloadedEndpoint(answer.status, pause_s)

    async def wait(seconds: float) -> None:
        stack.close()
        await retries.wait(seconds)

    with stack:
        with contextlib.suppress(OverloadedEndpoint):  # out of retries: the agent gets the refusal
            await retries.build_policy().await_with_retries(
                send_once, lambda failure: not failure.lasting, wait
            )
        yield opened


async def _read_error(
    response: aiohttp.ClientResponse, limits: GatewayLimits, upstream: Upstream
) -> bytes:
    """The start of an error's body, without secrets; b"" if it does not arrive."""
    body = b""
    with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
        async with asyncio.timeout(limits.connect_s):
            body = await read_start(response, limits.error_bytes)
    for secret in upstream.secrets:
        body = body.replace(secret, REDACTED)
    return body


def _find_pause_s(headers: Mapping[str, str], body: bytes) -> float:
    """Seconds that the endpoint asks to wait, in its headers or its message; 0 if it does not."""
    # Azure's, in milliseconds; OpenAI's own client prefers it, too (_base_client.py).
    pause_ms = parse_retry_after(headers.get("Retry-After-Ms", ""))
    return (
        pause_ms / 1000 or parse_retry_after(headers.get("Retry-After", "")) or find_pause_s(body)
    )


async def _send_billed(
    session: aiohttp.ClientSession, upstream: Upstream, request: ForwardedRequest, bill: Bill
) -> aiohttp.ClientResponse:
    """Send a request once, and bill it if it may have cost something."""
    bill.begin()  # before it is sent: from then on it may cost something
    try:
        response = await _send_request(session, upstream, request)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        if _was_never_sent(error):
            bill.forgive()
        raise UnreachableEndpoint(_describe_error(error), lasting=_is_lasting(error)) from None
    if _costs_nothing(response):
        bill.forgive()
    return response


async def _send_request(
    session: aiohttp.ClientSession, upstream: Upstream, request: ForwardedRequest
) -> aiohttp.ClientResponse:
    return await session.post(
        # encoded: yarl must not normalize the path that was checked
        URL(upstream.build_url(request.path, request.query), encoded=True),
        data=request.body,
        headers=_build_headers(upstream, request),
        proxy=upstream.proxy or None,
        allow_redirects=False,  # the key must not follow to another host
    )


def _build_headers(upstream: Upstream, request: ForwardedRequest) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream" if request.stream else "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": request.user_agent,
        **({"anthropic-version": request.version} if upstream.api is Api.ANTHROPIC else {}),
        **({LIGHT_HEADER: "true"} if request.light and upstream.api is Api.OPENAI else {}),
    }
    return {**headers, **upstream.build_headers(request.betas)}


async def read_start(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The first bytes of a body."""
    start = b""
    async for chunk in response.content.iter_chunked(most):
        start += chunk
        if len(start) >= most:
            break
    return start[:most]


def pick_agent_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer that the agent gets."""
    return {name: headers[name] for name in AGENT_HEADERS if name in headers}


def _was_never_sent(error: Exception) -> bool:
    """True if the request did not reach the endpoint. If a connection breaks later, or stays
    silent, a lost answer may have been billed."""
    # These come before the request is written, as do the errors of a CONNECT to a proxy.
    early = aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
    return isinstance(error, early | aiohttp.ClientHttpProxyError | aiohttp.InvalidURL)


def _costs_nothing(response: aiohttp.ClientResponse) -> bool:
    """True if a response shows that no answer was produced: a refused request, an overload, a
    redirect, or a failure that the endpoint itself reports. Another server on the way (a page
    instead of JSON, a timeout) does not know what was produced behind it."""
    status = response.status
    if status in (500, 502):
        return response.content_type == "application/json"
    return status in FREE_FAILURES or (300 <= status <= 498 and status not in PROXY_TIMEOUTS)


def _is_lasting(error: Exception) -> bool:
    """True for errors that no retry fixes: a certificate, a name, an answer that is not HTTP."""
    lasting = aiohttp.ClientSSLError | aiohttp.ClientResponseError | aiohttp.InvalidURL
    return isinstance(error, lasting)


def _describe_error(error: Exception) -> str:
    """The kind of an error, not its text, which may contain a URL with a password."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    return type(error).__name__
