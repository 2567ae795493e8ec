"""The agents' side of the gateway: its sockets, their requests and the answers, all bounded.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.request_body import RequestRefusal
from gitlab_nightshift.gateway.upstream import Api

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
LINE_BYTES = 8 * 1024
"""The longest request line, and the longest header."""
MOST_HEADERS = 64
LINGER_S = 2.0
"""Seconds to read on after an answer: closing a socket with unread data resets the connection, and
the client may lose the answer (RFC 9112, 9.6)."""
NO_RETRY = {"x-should-retry": "false"}
"""The gateway has retried already: more retries would multiply the waiting. OpenAI's own client
obeys this header (openai-python, _base_client.py)."""

# Outside the tree of loggers, so that nothing is printed.
_silent = logging.Logger("gateway")
_silent.addHandler(logging.NullHandler())


class Connections(web.Server):
    """Accepts a bounded number of connections; closes idle ones, and those whose request head
    arrives too slowly."""

    def __init__(self, handle: Handler, limits: GatewayLimits) -> None:
        super().__init__(
            self._serve_request,
            # Off by default: without it a handler learns of a disconnect only when it writes
            # (docs.aiohttp.org, "Peer disconnection").
            handler_cancellation=True,
            keepalive_timeout=limits.idle_s,
            access_log=None,
            logger=_silent,
            auto_decompress=False,  # a small body could become any size
            max_line_size=LINE_BYTES,
            max_field_size=LINE_BYTES,
            max_headers=MOST_HEADERS,
            lingering_time=LINGER_S,
        )
        self._handle, self._limits = handle, limits
        self._servers: list[asyncio.Server] = []
        self._open: dict[RequestHandler, asyncio.Transport] = {}
        self._idle_timers: dict[Any, asyncio.TimerHandle] = {}

    async def listen(self, unix_socket: socket.socket | None) -> int:
        """Listen on 127.0.0.1 and on a bound UNIX socket; returns the port."""
        loop = asyncio.get_running_loop()
        tcp = await loop.create_server(self, "127.0.0.1", 0)
        self._servers.append(tcp)
        if unix_socket:
            self._servers.append(await loop.create_server(self, sock=unix_socket))
        port: int = tcp.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Close everything at once."""
        for server in self._servers:
            server.close()
        for transport in list(self._open.values()):
            transport.abort()
        for timer in self._idle_timers.values():
            timer.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.shutdown(0.1), self._limits.stop_s)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open[handler] = transport
        if len(self._open) > self._limits.connections:
            transport.abort()  # at once, so that waiting connections cannot add up
        else:
            self._start_idle_timer(transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._cancel_idle_timer(self._open.pop(handler, None))
        super().connection_lost(handler, exc)

    async def _serve_request(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        self._cancel_idle_timer(transport)
        try:
            return await self._handle(request)
        finally:
            if transport and not transport.is_closing():
                self._start_idle_timer(transport)

    def _start_idle_timer(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        # Our own timer: keepalive_timeout counts only between two requests.
        self._idle_timers[transport] = loop.call_later(self._limits.idle_s, transport.abort)

    def _cancel_idle_timer(self, transport: asyncio.BaseTransport | None) -> None:
        if (timer := self._idle_timers.pop(transport, None)) is not None:
            timer.cancel()


class BodyReader:
    """Reads request bodies, and limits the bytes held in memory by all requests together."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits, self._held_bytes = limits, 0

    @contextlib.asynccontextmanager
    async def open_body(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """The body; its size counts as held until the end of the block, as copies of it live on.

        Raises RequestRefusal without a length, over the limits, and if it arrives too slowly.
        """
        size = _check_length(request)
        if size > self._limits.body_bytes:
            raise RequestRefusal("the request is too large", 413, "request_too_large")
        if self._held_bytes + size > self._limits.held_bytes:
            raise RequestRefusal("too many requests at a time", 429, "rate_limit_error")
        # Counted before the read, so that many slow uploads cannot add up.
        self._held_bytes += size
        try:
            yield await self._read(request, size)
        finally:
            self._held_bytes -= size

    async def _read(self, request: web.BaseRequest, size: int) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_s):
                # A limit for the whole body: one for each read would let one byte a minute through.
                return await request.content.readexactly(size)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            raise RequestRefusal("the request was cut off", 408) from None


def _check_length(request: web.BaseRequest) -> int:
    # None with chunked encoding, too: aiohttp's parser refuses a request that has both headers.
    if request.content_length is None:
        raise RequestRefusal("a request needs a Content-Length", 411)
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise RequestRefusal("compressed requests are not accepted", 415)
    if request.content_type != "application/json":
        raise RequestRefusal("a request is JSON", 415)
    return request.content_length


class AnswerReceiver:
    """Passes an answer to the agent. Once the agent has disconnected, the rest is dropped; the
    endpoint's answer is still read to its end, for its usage.

    ``gone`` is set once the agent has disconnected, or was disconnected because it read nothing for
    ``patience_s`` seconds (then ``slow`` is true too).
    """

    def __init__(self, request: web.BaseRequest, patience_s: float) -> None:
        self.gone, self.slow = asyncio.Event(), False
        self._request, self._patience_s = request, patience_s
        self._response: web.StreamResponse | None = None

    def disconnect(self) -> None:
        """Abort the agent's connection, so that it cannot take half an answer for a whole one."""
        self.gone.set()
        if self._request.transport:
            self._request.transport.abort()

    async def begin(self, headers: Mapping[str, str]) -> None:
        """Send the answer's head."""
        self._response = web.StreamResponse(headers=headers)
        await self._write_in_time(self._response.prepare(self._request))

    async def send(self, chunk: bytes) -> None:
        """Send a part of the answer."""
        if self._response and not self.gone.is_set():
            await self._write_in_time(self._response.write(chunk))

    async def end(self) -> web.StreamResponse:
        """End the answer."""
        if self._response is None or self.gone.is_set():
            return web.Response()
        # Some agents hang up once they have read the last event.
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            await self._response.write_eof()
        return self._response

    async def _write_in_time(self, writing: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await writing
        except TimeoutError:
            self.slow = True
            self.disconnect()
        except (aiohttp.ClientError, ConnectionError):
            self.disconnect()


def build_error_response(api: Api, refusal: RequestRefusal) -> web.Response:
    """A refusal in the form that the provider's own clients expect."""
    error = {"message": refusal.message, "type": refusal.kind}
    body: dict[str, Any] = {"error": {**error, "param": None, "code": None}}
    if api is Api.ANTHROPIC:
        body = {"type": "error", "error": error}
    headers = {"content-type": "application/json", **NO_RETRY}
    return web.Response(body=json.dumps(body).encode(), status=refusal.status, headers=headers)
