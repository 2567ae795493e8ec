"""Connects to a target: checks the allowlist, resolves the name once, and uses that address; relays
bytes both ways, in bounded memory and time."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from gitlab_nightshift.gateway.gateway_config import ChooseProxy, JobProxy
from gitlab_nightshift.settings.allowed_hosts import (
    EgressHost,
    explain_refusal,
    format_host_port,
    is_metadata,
    parse_address,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

CHUNK_BYTES = 64 * 1024


class Streams(NamedTuple):
    """A connection: what it receives, and where to send."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass
class Traffic:
    """Bytes from agents to hosts, and back."""

    sent: int = 0
    received: int = 0


async def relay_bytes(agent: Streams, host: Streams, traffic: Traffic, idle_s: float) -> None:
    """Relay until agent and host have ended, one fails, or neither sends anything for
    ``idle_s``."""
    relayed = Traffic()
    directions = {
        asyncio.create_task(_carry(agent.reader, host.writer, relayed, "sent")),
        asyncio.create_task(_carry(host.reader, agent.writer, relayed, "received")),
    }
    try:
        while directions:
            before = relayed.sent + relayed.received
            # One direction may be silent for as long as the other is not.
            done, directions = await asyncio.wait(directions, timeout=idle_s)
            failed = any(task.exception() for task in done)
            if failed or (not done and relayed.sent + relayed.received == before):
                return
    finally:
        for task in directions:
            task.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        traffic.sent += relayed.sent
        traffic.received += relayed.received


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Traffic, field: str
) -> None:
    """Carry bytes one way to their end, and add their number to a field of ``count``."""
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        setattr(count, field, getattr(count, field) + len(data))
        await writer.drain()  # waits while the other side reads slowly, so memory stays bounded
    with contextlib.suppress(OSError):  # this direction alone: the opposite one may go on
        writer.write_eof()


# --- the connection to a target -------------------------------------------------------------------

Resolve = Callable[[str, int], Awaitable[list[str]]]
Dial = Callable[[str, int], Awaitable[Streams]]
MOST_ADDRESSES = 4
"""Addresses of one name that are tried."""
ANSWER_BYTES = 16 * 1024
_STATUS = compile_lazily(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


class DeniedTarget(Exception):
    """A target that agents may not connect to; the text is the reason."""


class UnreachableTarget(Exception):
    """An allowed target that gives no connection; the text is the reason."""


class NoTunnel(Exception):
    """The job's own proxy refused to connect; the text is its answer."""


@dataclass(frozen=True)
class EgressRoute:
    """How targets are reached. ``choose_proxy`` finds the job's proxy for one, None to connect
    directly. ``resolve`` looks up a name and ``dial`` connects to an address; tests replace
    them."""

    allowed: tuple[EgressHost, ...]
    resolve_s: float
    connect_s: float
    choose_proxy: ChooseProxy
    resolve: Resolve
    dial: Dial

    async def connect(self, host: str, port: int) -> Streams:
        """A connection. Raises :class:`DeniedTarget` or :class:`UnreachableTarget`."""
        entry = next((entry for entry in self.allowed if entry.covers(host, port)), None)
        if is_metadata(host):
            raise DeniedTarget("a metadata service")
        if entry is None:
            raise DeniedTarget("not in policy.egress_hosts")
        if proxy := self.choose_proxy(host, port):
            return await self._connect_by_proxy(proxy, entry, host, port)
        for address in await self._resolve_allowed(entry, host, port):
            try:
                async with asyncio.timeout(self.connect_s):
                    return await self.dial(address, port)
            except (OSError, TimeoutError):
                continue
        raise UnreachableTarget("no connection")

    async def _connect_by_proxy(
        self, proxy: JobProxy, entry: EgressHost, host: str, port: int
    ) -> Streams:
        """A tunnel through the job's proxy. As that resolves the name, only the name is checked."""
        address = parse_address(host)
        why = explain_refusal(address, private=entry.exact) if address else ""
        if why or host == "localhost" or host.endswith(".localhost"):
            raise DeniedTarget(why or "an address of the proxy's own machine")
        try:
            async with asyncio.timeout(self.connect_s):
                return await _open_tunnel(proxy, host, port)
        except NoTunnel as error:
            raise UnreachableTarget(str(error)) from None
        except (OSError, TimeoutError):
            raise UnreachableTarget("the job's own proxy gives no connection") from None

    async def _resolve_allowed(self, entry: EgressHost, host: str, port: int) -> list[str]:
        """The addresses of a host. A single forbidden address denies the host.

        The name is resolved only once, here, so that a second answer of its DNS server cannot lead
        elsewhere (DNS rebinding).
        """
        try:
            async with asyncio.timeout(self.resolve_s):
                addresses = [host] if parse_address(host) else await self.resolve(host, port)
        except (OSError, TimeoutError, UnicodeError):
            raise UnreachableTarget("the name is not known") from None
        for text in addresses:
            address = parse_address(text)
            why = explain_refusal(address, private=entry.exact) if address else "no address"
            if why:
                raise DeniedTarget(f"it is at {text}, {why}")
        if not addresses:
            raise UnreachableTarget("the name has no address")
        return addresses[:MOST_ADDRESSES]


async def resolve_name(host: str, port: int) -> list[str]:
    """The addresses of a name, from the system's resolver."""
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in entries))


async def dial(address: str, port: int) -> Streams:
    """A connection to a numeric address."""
    # These flags forbid a lookup (getaddrinfo(3)), as the name was resolved before.
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return Streams(*await asyncio.open_connection(address, port, flags=flags))


async def _open_tunnel(proxy: JobProxy, host: str, port: int) -> Streams:
    """A connection to a host by the proxy's CONNECT. Raises :class:`NoTunnel` or ``OSError``."""
    tunnel = Streams(*await asyncio.open_connection(proxy.host, proxy.port, limit=ANSWER_BYTES))
    try:
        await _send_connect(tunnel, proxy, format_host_port(host, port))
    except BaseException:
        tunnel.writer.transport.abort()
        raise
    return tunnel


async def _send_connect(tunnel: Streams, proxy: JobProxy, target: str) -> None:
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.credential:
        lines.append(f"Proxy-Authorization: Basic {proxy.credential}")
    tunnel.writer.write("\r\n".join([*lines, "", ""]).encode("ascii"))
    try:
        answer = await tunnel.reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise NoTunnel("the job's own proxy gave no answer") from None
    match = _STATUS.match(answer)
    status = match[1].decode() if match else "no HTTP"
    if status != "200":
        raise NoTunnel(f"the job's own proxy answered {status}")
