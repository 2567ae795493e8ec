"""The agent's side of a request. The agent may disconnect at any time; the endpoint's answer is
read to its end anyway.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping

import aiohttp
from aiohttp import web


class AnswerReceiver:
    """Passes an answer to the agent until that disconnects, then drops the rest.

    ``gone`` is set once the agent has disconnected, or was disconnected because it read nothing for
    ``reads_s`` seconds (then ``slow`` is set too).
    """

    def __init__(self, request: web.BaseRequest, reads_s: float) -> None:
        self.gone, self.slow = asyncio.Event(), False
        self._request, self._reads_s = request, reads_s
        self._back: web.StreamResponse | None = None

    def disconnect(self) -> None:
        """Abort the agent's connection, so that it cannot take half an answer for a whole one."""
        self.gone.set()
        if self._request.transport:
            self._request.transport.abort()

    async def begin(self, headers: Mapping[str, str]) -> None:
        """Send the head of the answer."""
        self._back = web.StreamResponse(headers=headers)
        await self._write_in_time(self._back.prepare(self._request))

    async def take(self, chunk: bytes) -> None:
        """Send a part of the answer."""
        if self._back and not self.gone.is_set():
            await self._write_in_time(self._back.write(chunk))

    async def end(self) -> web.StreamResponse:
        """End the answer."""
        if self._back is None or self.gone.is_set():
            return web.Response()
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            await self._back.write_eof()  # some agents hang up once they have read the last event
        return self._back

    async def _write_in_time(self, writing: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(self._reads_s):
                await writing
        except TimeoutError:
            self.slow = True
            self.disconnect()
        except (aiohttp.ClientError, ConnectionError):
            self.disconnect()
