"""The hosts that settings allow, and the target of a request, matched by exact text."""

import ipaddress
import re
from dataclasses import dataclass

from gitlab_nightshift.text.allowed_addresses import Address, explain_refusal
from gitlab_nightshift.text.lazy_patterns import compile_lazily

HTTPS = 443
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = compile_lazily(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = compile_lazily(r"(?:0x[0-9a-f]*|[0-9]+)")
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data"}
)


@dataclass(frozen=True)
class OpenHost:
    """A host that agents may connect to. ``exact`` is a host with its port and no wildcard: the
    only kind that may be a private address. As a text it is ``host:port``."""

    host: str
    port: int
    wildcard: bool
    exact: bool

    def __str__(self) -> str:
        return f"{'*.' if self.wildcard else ''}{format_host_port(self.host, self.port)}"

    def covers(self, host: str, port: int) -> bool:
        """True for this host and port; a wildcard covers names below it, not the name itself."""
        if port != self.port:
            return False
        return host.endswith(f".{self.host}") if self.wildcard else host == self.host


def parse_egress_host(text: str) -> OpenHost:
    """An entry of ``policy.egress_hosts``: ``name``, ``*.name``, ``host:port``; the port is 443
    where none is given. Raises ``ValueError`` for anything else, and for what is never allowed."""
    plain = text.strip().lower()
    wildcard = plain.startswith("*.")
    host, port = split(plain.removeprefix("*."))
    address = parse_address(host)
    if wildcard and ("." not in host or address):
        raise ValueError("a wildcard needs a domain of at least two parts after it")
    entry = OpenHost(host, port or HTTPS, wildcard, exact=not wildcard and port is not None)
    if is_metadata(host):
        raise ValueError("a metadata service is never open to agents")
    if address and (why := explain_refusal(address, private=entry.exact)):
        wanted = (
            " (needs its port, as host:port)" if not explain_refusal(address, private=True) else ""
        )
        raise ValueError(f"{why}{wanted} is not open to agents")
    return entry


def split(text: str) -> tuple[str, int | None]:
    """Host (lower case, without the last dot) and port of ``host``, ``host:port``, ``[v6]:port``.

    Raises ``ValueError`` for all else: no user, no path, no numbers that resolvers take for
    addresses, nothing outside ASCII.
    """
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@/\\\s]+)(?::([0-9]{1,5}))?", text)
    if not match or not text.isascii():
        raise ValueError("expected host or host:port")
    port = int(match[2]) if match[2] is not None else None
    if port is not None and not 1 <= port <= 65535:
        raise ValueError("a port must be a number from 1 to 65535")
    host = match[1].lower().removesuffix(".").strip("[]")
    if parse_address(host) is None and not _is_name(host):
        raise ValueError("expected a host's name or address")
    return host, port


def format_host_port(host: str, port: int) -> str:
    """``host:port``, as :func:`split` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(host: str) -> Address | None:
    """The address that a host is, None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_metadata(host: str) -> bool:
    """True for the names of metadata services; for addresses see ``text/allowed_addresses.py``."""
    return host in _METADATA_NAMES or host.endswith((".metadata.google.internal", ".metadata.goog"))


def _is_name(host: str) -> bool:
    last = host.rpartition(".")[2]
    return len(host) <= 253 and bool(_NAME.fullmatch(host)) and not _NUMBER.fullmatch(last)
