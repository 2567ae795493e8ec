"""Reads the head of a proxy request, bounded and strictly."""

import asyncio
import base64
import binascii
from dataclasses import dataclass

from gitlab_nightshift.settings.allowed_hosts import split
from gitlab_nightshift.text.lazy_patterns import compile_lazily

HEAD_BYTES = 16 * 1024
_LINE = compile_lazily(r"([A-Z]{3,16}) (\S+) HTTP/1\.[01]")
_HEADER = compile_lazily(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
# Headers for the proxy alone, which must not go on: RFC 9110, 7.6.1.
_HOP = frozenset(
    {
        *("connection", "host", "keep-alive", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "upgrade", "proxy-authenticate"),
    }
)


class BadHead(Exception):
    """A malformed request; the text is for the client."""


@dataclass(frozen=True)
class RequestHead:
    """A request. ``forward`` is what a plain http server gets of it, b"" for a tunnel."""

    host: str
    port: int
    credential: str
    forward: bytes


async def read_head(reader: asyncio.StreamReader) -> RequestHead:
    """The head; the reader's limit bounds it. Raises :class:`BadHead`."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
        return parse_head(raw.decode("ascii"))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        raise BadHead("no request of a proxy") from None


def parse_head(text: str) -> RequestHead:
    """Parse a head. Raises ``ValueError``."""
    first, *lines = text.removesuffix("\r\n\r\n").split("\r\n")
    line = _LINE.fullmatch(first)
    headers = [_HEADER.fullmatch(row) for row in lines]
    if line is None or not all(headers):
        raise ValueError("not a request")
    pairs = [(match[1], match[2].strip()) for match in headers if match]
    method, target = line[1], line[2]
    credential = _read_credential(pairs)
    if method == "CONNECT":
        host, port = split(target)
        if port is None:
            raise ValueError("no port")
        return RequestHead(host, port, credential, b"")
    return _parse_plain(method, target, pairs, credential)


def _parse_plain(
    method: str, target: str, pairs: list[tuple[str, str]], credential: str
) -> RequestHead:
    """A request for an http URL, rewritten for its server. Only one per connection: the next could
    name another host."""
    if not target.startswith("http://"):
        raise ValueError("not an address")
    authority, slash, path = target.removeprefix("http://").partition("/")
    host, port = split(authority)
    shown = authority.lower()
    kept = [f"{name}: {value}" for name, value in pairs if name.lower() not in _HOP]
    rows = [f"{method} {slash or '/'}{path} HTTP/1.1", f"Host: {shown}", "Connection: close", *kept]
    return RequestHead(host, port or 80, credential, "\r\n".join([*rows, "", ""]).encode("ascii"))


def _read_credential(pairs: list[tuple[str, str]]) -> str:
    given = [value for name, value in pairs if name.lower() == "proxy-authorization"]
    if len(given) != 1:
        return ""
    kind, _, code = given[0].partition(" ")
    try:
        whole = base64.b64decode(code.strip(), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""
    return whole.partition(":")[2] if kind.lower() == "basic" else ""
