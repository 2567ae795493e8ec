"""The proxy through which agents reach the few hosts that the settings allow."""

import asyncio
import base64
import binascii
import contextlib
import hmac
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from gitlab_nightshift.gateway.control_messages import EgressTicket
from gitlab_nightshift.gateway.egress.route import (
    DeniedTarget,
    Dial,
    EgressRoute,
    Resolve,
    Streams,
    Traffic,
    UnreachableTarget,
    dial,
    relay_bytes,
    resolve_name,
)
from gitlab_nightshift.gateway.gateway_config import ChooseProxy
from gitlab_nightshift.gateway.request_body import quote_text
from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.settings.allowed_hosts import (
    format_host_port,
    parse_egress_host,
    split_host_port,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

HEAD_BYTES = 16 * 1024
# RFC 9112, 3 and 5, without what parsers may understand differently: obs-fold, other line ends.
_REQUEST_LINE = compile_lazily(r"([A-Z]{3,16}) (\S+) HTTP/1\.[01]")
_HEADER = compile_lazily(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
# Headers for the proxy alone, which must not go on: RFC 9110, 7.6.1.
_HOP_HEADERS = frozenset(
    {
        *("connection", "host", "keep-alive", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "upgrade", "proxy-authenticate"),
    }
)


class BadHead(Exception):
    """A malformed request; the text is for the client."""


@dataclass(frozen=True)
class RequestHead:
    """The head of a request. ``credential`` is "" without one; ``forwarded`` is the head that a
    plain http server gets, b"" for a tunnel."""

    host: str
    port: int
    credential: str
    forwarded: bytes


async def read_head(reader: asyncio.StreamReader) -> RequestHead:
    """Read the head of a request, of at most the reader's limit. Raises :class:`BadHead`."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
        return parse_head(raw.decode("ascii"))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        raise BadHead("no request of a proxy") from None


def parse_head(text: str) -> RequestHead:
    """Parse a head. Raises ``ValueError``."""
    first, *lines = text.removesuffix("\r\n\r\n").split("\r\n")
    request_line = _REQUEST_LINE.fullmatch(first)
    matches = [_HEADER.fullmatch(line) for line in lines]
    if request_line is None or not all(matches):
        raise ValueError("not a request")
    headers = [(match[1], match[2].strip()) for match in matches if match]
    method, target = request_line[1], request_line[2]
    credential = _read_credential(headers)
    if method == "CONNECT":
        host, port = split_host_port(target)
        if port is None:
            raise ValueError("no port")
        return RequestHead(host, port, credential, b"")
    return _parse_plain(method, target, headers, credential)


def _parse_plain(
    method: str, target: str, headers: list[tuple[str, str]], credential: str
) -> RequestHead:
    """A request for an http URL, rewritten for its server. It is the connection's only one: the
    next could name another host."""
    if not target.startswith("http://"):
        raise ValueError("not an address")
    authority, slash, path = target.removeprefix("http://").partition("/")
    host, port = split_host_port(authority)
    lines = [f"{method} {slash or '/'}{path} HTTP/1.1"]
    # Host repeats the target (RFC 9112, 3.2.2): what was checked is what the server is asked for.
    lines += [f"Host: {authority.lower()}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers if name.lower() not in _HOP_HEADERS]
    return RequestHead(host, port or 80, credential, "\r\n".join([*lines, "", ""]).encode("ascii"))


def _read_credential(headers: list[tuple[str, str]]) -> str:
    values = [value for name, value in headers if name.lower() == "proxy-authorization"]
    if len(values) != 1:
        return ""
    scheme, _, encoded = values[0].partition(" ")
    try:
        user_and_password = base64.b64decode(encoded.strip(), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""
    return user_and_password.partition(":")[2] if scheme.lower() == "basic" else ""


# --- the proxy ------------------------------------------------------------------------------------

MOST_NOTES = 50
"""Refused targets reported in a run, each once."""
MOST_TARGETS = 1000
"""Targets of a bead whose traffic is counted separately."""
USER = "nightshift"


@dataclass(frozen=True)
class ProxyLimits:
    """Times in seconds; ``connections`` are those of all beads together."""

    connections: int = 128
    head_s: float = 10.0
    resolve_s: float = 10.0
    connect_s: float = 15.0
    idle_s: float = 300.0
    close_s: float = 10.0
    stop_s: float = 0.5


@dataclass(eq=False)
class _ProxyBead:
    """A running bead, the tasks that serve its connections, and its traffic by ``host:port``."""

    ticket: EgressTicket
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    traffic: dict[str, Traffic] = field(default_factory=dict)


class EgressProxy:
    """The proxy within an event loop, from ``start`` to ``stop``.

    ``hosts`` is ``policy.egress_hosts``; an invalid one raises ``ValueError``. ``choose_proxy``
    finds the job's proxy for a host and port. ``emit`` gets every refused target. A request needs
    the credential of a running bead."""

    def __init__(
        self,
        hosts: Iterable[str],
        emit: Emit,
        *,
        limits: ProxyLimits | None = None,
        choose_proxy: ChooseProxy = lambda _host, _port: None,
        resolve: Resolve = resolve_name,
        dial: Dial = dial,
    ) -> None:
        self._limits = limits = limits or ProxyLimits()
        allowed = tuple(map(parse_egress_host, hosts))
        self._route = EgressRoute(
            allowed, limits.resolve_s, limits.connect_s, choose_proxy, resolve, dial
        )
        self._emit = emit
        self._beads: tuple[_ProxyBead, ...] = ()
        self._reported: set[str] = set()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self, unix_socket: socket.socket | None = None) -> int:
        """Listen on loopback, and on a bound UNIX socket; returns the port."""
        tcp = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=HEAD_BYTES)
        self._servers.append(tcp)
        self.port = tcp.sockets[0].getsockname()[1]
        if unix_socket:
            unix = await asyncio.start_server(self._accept, sock=unix_socket, limit=HEAD_BYTES)
            self._servers.append(unix)
        choose_proxy = self._route.choose_proxy
        proxied = [host for host in self._route.allowed if choose_proxy(host.host, host.port)]
        if proxied:
            names = ", ".join(map(str, proxied))
            why = "through the job's own proxy, which looks names up: no address is checked"
            self._emit(Note(f"{names}: {why}", warning=True))
        return self.port

    async def stop(self) -> None:
        """Close everything at once."""
        for server in self._servers:
            server.close()
        await self._cancel_tasks(self._tasks)

    def open_bead(self, bead: str) -> EgressTicket:
        """Let a bead use the proxy."""
        credential = secrets.token_hex(16)
        url = f"http://{USER}:{credential}@127.0.0.1:{self.port}"
        ticket = EgressTicket(bead, url, credential)
        self._beads = (*self._beads, _ProxyBead(ticket))
        return ticket

    async def close_bead(self, ticket: EgressTicket) -> dict[str, Traffic]:
        """Cut a bead's connections and refuse later ones; returns its traffic by ``host:port``."""
        bead = next(bead for bead in self._beads if bead.ticket is ticket)
        self._beads = tuple(other for other in self._beads if other is not bead)
        await self._cancel_tasks(bead.tasks)
        return dict(bead.traffic)

    async def _cancel_tasks(self, tasks: set["asyncio.Task[None]"]) -> None:
        running = set(tasks)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=self._limits.stop_s)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self._limits.connections:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(Streams(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, agent: Streams) -> None:
        """Serve one connection to its end."""
        try:
            with contextlib.suppress(OSError, TimeoutError):
                await self._serve_request(agent)
            await _close(agent.writer, self._limits.close_s)
        finally:
            agent.writer.transport.abort()

    async def _serve_request(self, agent: Streams) -> None:
        try:
            async with asyncio.timeout(self._limits.head_s):
                head = await read_head(agent.reader)
        except BadHead as error:
            await _answer(agent.writer, "400 Bad Request", str(error))
        else:
            await self._open_target(agent, head)

    async def _open_target(self, agent: Streams, head: RequestHead) -> None:
        target = format_host_port(head.host, head.port)
        bead = self._find_bead(head.credential)
        if bead is None:
            # 407 needs a challenge (RFC 9110, 15.5.8); some clients send credentials only after it.
            challenge = 'Proxy-Authenticate: Basic realm="nightshift"\r\n'
            await _answer(agent.writer, "407 Proxy Authentication Required", "no bead", challenge)
            return
        task = asyncio.current_task()
        assert task
        bead.tasks.add(task)
        try:
            await self._tunnel_request(agent, head, target, bead)
        except DeniedTarget as reason:
            self._report_refusal(bead.ticket.bead, f"{quote_text(target)} refused: {reason}")
            await _answer(agent.writer, "403 Forbidden", f"{target}: {reason}")
        except UnreachableTarget as reason:
            await _answer(agent.writer, "502 Bad Gateway", f"{target}: {reason}")
        finally:
            bead.tasks.discard(task)

    async def _tunnel_request(
        self, agent: Streams, head: RequestHead, target: str, bead: _ProxyBead
    ) -> None:
        host = await self._route.connect(head.host, head.port)
        try:
            name = target if len(bead.traffic) < MOST_TARGETS else "others"
            traffic = bead.traffic.setdefault(name, Traffic())
            traffic.sent += len(head.forwarded)
            if head.forwarded:
                host.writer.write(head.forwarded)
            else:
                # No Content-Length: after it the connection is a tunnel (RFC 9110, 9.3.6).
                agent.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await relay_bytes(agent, host, traffic, self._limits.idle_s)
            await _close(host.writer, self._limits.close_s)
        finally:
            host.writer.transport.abort()

    def _find_bead(self, credential: str) -> _ProxyBead | None:
        # In constant time: the credential is a secret of each bead.
        for bead in self._beads:
            if hmac.compare_digest(bead.ticket.credential, credential):
                return bead
        return None

    def _report_refusal(self, bead: str, text: str) -> None:
        if text not in self._reported and len(self._reported) < MOST_NOTES:
            self._reported.add(text)
            self._emit(Note(f"egress, {bead}: {text}", warning=True))


async def _answer(writer: asyncio.StreamWriter, status: str, text: str, headers: str = "") -> None:
    body = f"{text}\n".encode("ascii", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}Connection: close\r\n\r\n"
    writer.write(head.encode("ascii", "replace") + body)
    await writer.drain()


async def _close(writer: asyncio.StreamWriter, seconds: float) -> None:
    """Close a connection, with some time to send what is buffered."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(seconds):
            await writer.wait_closed()
