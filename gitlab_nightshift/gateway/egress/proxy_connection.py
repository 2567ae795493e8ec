"""A connection to a host through the job's own proxy."""

import asyncio

from gitlab_nightshift.gateway.egress.company_proxy import JobProxy
from gitlab_nightshift.gateway.egress.tunnel import Pipe
from gitlab_nightshift.settings.allowed_hosts import format_host_port
from gitlab_nightshift.text.lazy_patterns import compile_lazily

ANSWER_BYTES = 16 * 1024
_STATUS = compile_lazily(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


class NoTunnel(Exception):
    """The proxy did not make a connection; what it answered."""


async def open_tunnel(proxy: JobProxy, host: str, port: int) -> Pipe:
    """A connection to a host by the proxy's CONNECT. Raises :class:`NoTunnel` or ``OSError``."""
    pipe = await asyncio.open_connection(proxy.host, proxy.port, limit=ANSWER_BYTES)
    try:
        await _send_connect(pipe, proxy, format_host_port(host, port))
    except BaseException:
        pipe[1].transport.abort()
        raise
    return pipe


async def _send_connect(pipe: Pipe, proxy: JobProxy, target: str) -> None:
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
