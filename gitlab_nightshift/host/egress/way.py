"""From a target to a connection: the allowlist, one look at the name, exactly that address."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gitlab_nightshift.host.egress.onward import NoTunnel, Onward, tunnelled
from gitlab_nightshift.host.egress.tunnel import Pipe
from gitlab_nightshift.settings.addresses import refusal
from gitlab_nightshift.settings.hosts import Entry, address_of, is_metadata

Resolve = Callable[[str, int], Awaitable[list[str]]]
Dial = Callable[[str, int], Awaitable[Pipe]]
Choose = Callable[[str, int], Onward | None]
ADDRESSES = 4
"""More addresses of one name are not tried."""


class Denied(Exception):
    """A target that agents do not reach; the reason."""


class Unreachable(Exception):
    """An allowed target that gives no connection; the reason."""


@dataclass(frozen=True)
class Way:
    """``onward`` names the job's own proxy for a target, None for the direct way; ``resolve`` looks
    a name up, ``dial`` connects to an address: seams for tests."""

    entries: tuple[Entry, ...]
    resolve_s: float
    connect_s: float
    onward: Choose
    resolve: Resolve
    dial: Dial

    async def connect(self, host: str, port: int) -> Pipe:
        """A connection. Raises :class:`Denied` or :class:`Unreachable`."""
        entry = next((entry for entry in self.entries if entry.covers(host, port)), None)
        if is_metadata(host):
            raise Denied("a metadata service")
        if entry is None:
            raise Denied("not in policy.egress_hosts")
        if proxy := self.onward(host, port):
            return await self._through(proxy, entry, host, port)
        for address in await self._checked(entry, host, port):
            try:
                async with asyncio.timeout(self.connect_s):
                    return await self.dial(address, port)
            except (OSError, TimeoutError):
                continue
        raise Unreachable("no connection")

    async def _through(self, proxy: Onward, entry: Entry, host: str, port: int) -> Pipe:
        """A tunnel of the job's proxy, which looks the name up: only what is written is checked."""
        address = address_of(host)
        why = refusal(address, private=entry.exact) if address else ""
        if why or host == "localhost" or host.endswith(".localhost"):
            raise Denied(why or "an address of the proxy's own machine")
        try:
            async with asyncio.timeout(self.connect_s):
                return await tunnelled(proxy, host, port)
        except NoTunnel as error:
            raise Unreachable(str(error)) from None
        except (OSError, TimeoutError):
            raise Unreachable("the job's own proxy gives no connection") from None

    async def _checked(self, entry: Entry, host: str, port: int) -> list[str]:
        """The addresses of a host, all of them allowed: one that is not makes the name suspect.

        The name is looked up once, and the connection goes to what was looked at here.
        """
        try:
            async with asyncio.timeout(self.resolve_s):
                found = [host] if address_of(host) else await self.resolve(host, port)
        except (OSError, TimeoutError, UnicodeError):
            raise Unreachable("the name is not known") from None
        for text in found:
            address = address_of(text)
            why = refusal(address, private=entry.exact) if address else "no address"
            if why:
                raise Denied(f"it is at {text}, {why}")
        if not found:
            raise Unreachable("the name has no address")
        return found[:ADDRESSES]


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, from the system's resolver."""
    loop = asyncio.get_running_loop()
    rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


async def dial(address: str, port: int) -> Pipe:
    """A connection to a numeric address: nothing is looked up again."""
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return await asyncio.open_connection(address, port, flags=flags)
