"""Relays bytes both ways between an agent and a host, in bounded memory and time."""

import asyncio
import contextlib
from dataclasses import dataclass

CHUNK = 64 * 1024
Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Traffic:
    """Bytes from the agent to its hosts, and back."""

    sent: int = 0
    received: int = 0


async def relay_bytes(agent: Pipe, host: Pipe, traffic: Traffic, idle_s: float) -> None:
    """Relay until both sides have ended, one fails, or neither sends anything for ``idle_s``."""
    own = Traffic()
    directions = {
        asyncio.create_task(_carry(agent[0], host[1], own, "sent")),
        asyncio.create_task(_carry(host[0], agent[1], own, "received")),
    }
    try:
        while directions:
            before = own.sent + own.received
            done, directions = await asyncio.wait(directions, timeout=idle_s)
            broke = any(task.exception() for task in done)
            if broke or (not done and own.sent + own.received == before):
                return
    finally:
        for task in directions:
            task.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        traffic.sent += own.sent
        traffic.received += own.received


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Traffic, way: str
) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        setattr(count, way, getattr(count, way) + len(data))
        await writer.drain()  # waits while the other side reads slowly, so memory stays bounded
    with contextlib.suppress(OSError):  # half of the connection: the other may still carry data
        writer.write_eof()
