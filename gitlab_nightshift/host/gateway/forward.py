"""Send a checked request on: retries before the first byte, and what may go back in the headers.

Imports aiohttp: only the gateway's own thread reads this module.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import aiohttp
from yarl import URL

from gitlab_nightshift.host.gateway.bill import Bill
from gitlab_nightshift.host.gateway.keys import Api
from gitlab_nightshift.host.gateway.limits import Limits
from gitlab_nightshift.host.gateway.openai import LIGHT
from gitlab_nightshift.host.gateway.refusal import Refusal
from gitlab_nightshift.host.gateway.upstream import Upstream

OVERLOAD = frozenset({429, 502, 503, 529})
REFUSED = frozenset({401, 403})
NEVER_MADE = frozenset({503, 529})
"""Errors above 499 with which no answer was made, whoever says so."""
PERHAPS_MADE = frozenset({408, 499})
"""Errors below 500 with which a proxy on the way tells that it has waited in vain."""
PASSED_BACK = ("content-type", "request-id", "x-request-id", "retry-after")
"""Headers of an answer that the agent gets; no cookies, no ids of the account."""
HEADER_BYTES = 32 * 1024


@dataclass(frozen=True)
class Sent:
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


def open_session(upstream: Upstream, limits: Limits) -> aiohttp.ClientSession:
    """Connections to the endpoint: no cookies, no environment, nothing unpacked."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=upstream.tls(), limit=limits.connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(
            total=None, connect=limits.connect_s, sock_read=limits.silent_s
        ),
        auto_decompress=False,
        trust_env=False,
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
    )


class Unreachable(Refusal):
    """No answer at all, after all retries."""


class Abandoned(Exception):
    """The agent has left before there was an answer: it is not asked for again."""


class Retries:
    """When an overloaded endpoint is asked again, unless the agent has ``gone``.

    Once a deadline has passed in vain, later requests have one try each: the caller ends the bead
    anyway.
    """

    def __init__(self, limits: Limits, gone: asyncio.Event, once: bool) -> None:
        self._limits, self._gone, self._pause = limits, gone, limits.retry_first_s
        self._end = time.monotonic() + (0 if once else limits.retry_s)

    def pause(self, asked: str) -> float | None:
        """Seconds to wait, None where there is no time left; ``asked`` is a ``Retry-After``."""
        wait = self._pause * random.uniform(0.75, 1.25)  # noqa: S311 - jitter
        self._pause = min(self._pause * 2, self._limits.retry_longest_s)
        if asked.isdecimal() and len(asked) < 7:
            wait = max(wait, float(asked))
        return wait if time.monotonic() + wait < self._end else None

    async def wait(self, seconds: float) -> None:
        """Wait. Raises :class:`Abandoned` where the agent has left meanwhile."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), seconds)
            raise Abandoned


@contextlib.asynccontextmanager
async def answered(
    session: aiohttp.ClientSession, upstream: Upstream, sent: Sent, retries: Retries, bill: Bill
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The endpoint's answer, its head read. Each try is owed, unless it is sure to cost nothing.

    Raises :class:`Unreachable` where there is none, :class:`Refusal` where another try does not fit
    into the budget, :class:`Abandoned`.
    """
    while True:
        fault = ""
        pause = None
        bill.begin()
        try:
            response = await _asked(session, upstream, sent)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            fault = _said(error)
            if _unsent(error):
                bill.forgive()
            pause = None if _hopeless(error) else retries.pause("")
        else:
            if _costs_nothing(response):
                bill.forgive()
            if response.status in OVERLOAD:
                pause = retries.pause(response.headers.get("Retry-After", ""))
            if pause is None:
                try:
                    yield response
                finally:
                    response.close()
                return
            response.close()
        if pause is None:
            raise Unreachable(f"the model endpoint cannot be reached: {fault}", 502, "api_error")
        await retries.wait(pause)


async def _asked(
    session: aiohttp.ClientSession, upstream: Upstream, sent: Sent
) -> aiohttp.ClientResponse:
    query = f"?{sent.query}" if sent.query else ""
    return await session.post(
        URL(f"{upstream.base_url}{sent.path}{query}", encoded=True),
        data=sent.body,
        headers=_headers(upstream, sent),
        proxy=upstream.proxy or None,
        allow_redirects=False,
    )


def _headers(upstream: Upstream, sent: Sent) -> dict[str, str]:
    known = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream" if sent.stream else "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": sent.agent,
        **({"anthropic-version": sent.version} if upstream.api is Api.ANTHROPIC else {}),
        **({LIGHT: "true"} if sent.light and upstream.api is Api.OPENAI else {}),
    }
    return {**known, **upstream.own_headers(sent.betas)}


def head_for_agent(headers: Mapping[str, str]) -> dict[str, str]:
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
    or a failure that the endpoint itself tells. What another server on the way tells of it (a page
    instead of JSON, a timeout) says nothing about what was made behind it."""
    status = response.status
    if status in (500, 502):
        return response.content_type == "application/json"
    return status in NEVER_MADE or (300 <= status <= 498 and status not in PERHAPS_MADE)


def _hopeless(error: Exception) -> bool:
    """True for what no second try mends: a certificate, a name, an answer that is no HTTP."""
    wrong = (aiohttp.ClientSSLError, aiohttp.ClientResponseError, aiohttp.InvalidURL)
    return isinstance(error, wrong)


def _said(error: Exception) -> str:
    """The kind of an error: its text may hold an address with a password."""
    certificate = isinstance(error, aiohttp.ClientConnectorCertificateError)
    return "its certificate is not trusted" if certificate else type(error).__name__
