"""Through a company's proxy, where the job itself has no other way to the internet."""

import asyncio
import base64
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from gitlab_nightshift.host.egress.tunnel import Pipe
from gitlab_nightshift.settings.hosts import joined

ANSWER_BYTES = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


class NoTunnel(Exception):
    """The proxy did not make a connection; what it answered."""


@dataclass(frozen=True)
class Onward:
    """A proxy of the job. ``credential`` is what follows ``Basic``, "" for none: agents never see
    it."""

    host: str
    port: int
    credential: str = field(repr=False)


def onward(url: str) -> Onward:
    """The proxy of a URL. Raises ``ValueError`` for one that is not asked by plain HTTP."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # its text may hold a part of the password
        host, port = None, None
    if not host or parts.scheme != "http":
        raise ValueError("a proxy such as http://proxy.example:3128 is expected")
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    credential = base64.b64encode(user.encode()).decode() if user != ":" else ""
    return Onward(host, port or 80, credential)


async def tunnelled(proxy: Onward, host: str, port: int) -> Pipe:
    """A connection to a host by the proxy's CONNECT. Raises :class:`NoTunnel` or ``OSError``."""
    pipe = await asyncio.open_connection(proxy.host, proxy.port, limit=ANSWER_BYTES)
    try:
        await _ask(pipe, proxy, joined(host, port))
    except BaseException:
        pipe[1].transport.abort()
        raise
    return pipe


async def _ask(pipe: Pipe, proxy: Onward, target: str) -> None:
    rows = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.credential:
        rows.append(f"Proxy-Authorization: Basic {proxy.credential}")
    pipe[1].write("\r\n".join([*rows, "", ""]).encode("ascii"))
    try:
        answer = await pipe[0].readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise NoTunnel("the job's own proxy gave no answer") from None
    status = _STATUS.match(answer)
    if status is None or status[1] != b"200":
        said = status[1].decode() if status else "no HTTP"
        raise NoTunnel(f"the job's own proxy answered {said}")
