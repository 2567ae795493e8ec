"""The agent's side of a request: it may go away at any time, its answer is read all the same.

Imports aiohttp: only the gateway's own process reads this module.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping

import aiohttp
from aiohttp import web


class AnswerReceiver:
    """Takes an answer as long as the agent does; what comes after that is dropped.

    ``gone`` is set once the agent has left, or was left because it reads nothing for ``reads_s``
    seconds (then ``slow``, too).
    """

    def __init__(self, request: web.BaseRequest, reads_s: float) -> None:
        self.gone, self.slow = asyncio.Event(), False
        self._request, self._reads_s = request, reads_s
        self._back: web.StreamResponse | None = None

    def leave(self) -> None:
        """Break the agent's connection off, so that it takes no half answer for a whole one."""
        self.gone.set()
        if self._request.transport:
            self._request.transport.abort()

    async def begin(self, headers: Mapping[str, str]) -> None:
        """The head of the answer."""
        self._back = web.StreamResponse(headers=headers)
        await self._write_in_time(self._back.prepare(self._request))

    async def take(self, chunk: bytes) -> None:
        """Some of the answer."""
        if self._back and not self.gone.is_set():
            await self._write_in_time(self._back.write(chunk))

    async def end(self) -> web.StreamResponse:
        """The end of the answer."""
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
            self.leave()
        except (aiohttp.ClientError, ConnectionError):
            self.leave()
