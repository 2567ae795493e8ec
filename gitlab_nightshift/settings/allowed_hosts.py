"""The hosts and addresses that agents may connect to: hosts are matched as text with those in the
settings, and the addresses must be public, or private ones that the settings allow."""

import ipaddress
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from gitlab_nightshift.text.lazy_patterns import compile_lazily

_Address = IPv4Address | IPv6Address
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Google, Azure, OpenStack and most others
        "169.254.170.2",  # AWS: the credentials of an ECS task
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure: WireServer
        "192.0.0.192",  # Oracle Cloud Classic
        *("fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),  # AWS, Google, Oracle by IPv6
    )
)
"""Addresses at which clouds give credentials to any process on the machine."""
# RFC 1918, RFC 6598 (carrier-grade NAT, which companies and Kubernetes use inside), RFC 4193.
_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
# RFC 6052: the last 32 bits are the IPv4 address to which a gateway sends the packet.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# For these, ``is_global`` depends on Python's patch version (python/cpython#113171): "this network"
# (RFC 1122, 3.2.1.3), protocol assignments (RFC 6890), 6to4 relays (RFC 7526), benchmarks (RFC
# 2544), reserved (RFC 1112, 4).
_NOT_PUBLIC_4 = tuple(
    ipaddress.ip_network(text)
    for text in ("0.0.0.0/8", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4")
)
# RFC 4291, 2.4: global unicast is 2000::/3 so far. In it: protocol assignments (RFC 2928, with
# Teredo and ORCHID) and documentation (RFC 9637).
_PUBLIC_6 = ipaddress.ip_network("2000::/3")
_NOT_PUBLIC_6 = tuple(ipaddress.ip_network(text) for text in ("2001::/23", "3fff::/20"))


def explain_refusal(address: _Address, private: bool) -> str:
    """Why an address is refused; "" if it is allowed.

    ``private`` allows company networks (RFC 1918, RFC 6598, RFC 4193); metadata, loopback,
    link-local, multicast and other non-public addresses are always refused.
    """
    target = _find_target(address)
    if target is None:
        return "an address that contains another one"
    if target in METADATA:
        return "a metadata address"
    if any(target in network for network in _PRIVATE):
        return "" if private else "a private address"
    if target.is_loopback or target.is_link_local or target.is_multicast or target.is_unspecified:
        return "an address of this machine or its link"
    return "" if _is_public(target) else "not a public address"


def _find_target(address: _Address) -> _Address | None:
    """The address that packets go to: the IPv4 address inside a mapped or NAT64 one; None for an
    address of a tunnel, or with a scope."""
    if isinstance(address, IPv4Address):
        return address
    if address.scope_id is not None or address.sixtofour or address.teredo:
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_public(address: _Address) -> bool:
    if not address.is_global or address.is_reserved:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


HTTPS = 443
# Names as DNS has them (RFC 1035, 2.3.4: 63 and 253 characters), and `_`, which some have.
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = compile_lazily(rf"{_LABEL}(?:\.{_LABEL})*")
# inet_aton(3) also takes 0x7f.1, 127.1 and 2130706433 for addresses.
_NUMBER = compile_lazily(r"(?:0x[0-9a-f]*|[0-9]+)")
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data"}
)


@dataclass(frozen=True)
class EgressHost:
    """An entry of ``policy.egress_hosts``. ``wildcard``: it stands for the subdomains of ``host``.
    ``exact``: it names its port, and no wildcard; only then may it be a private address."""

    host: str
    port: int
    wildcard: bool
    exact: bool

    def __str__(self) -> str:
        return f"{'*.' if self.wildcard else ''}{format_host_port(self.host, self.port)}"

    def covers(self, host: str, port: int) -> bool:
        """True for this host and port; a wildcard covers subdomains, not the domain itself."""
        if port != self.port:
            return False
        return host.endswith(f".{self.host}") if self.wildcard else host == self.host


def parse_egress_host(text: str) -> EgressHost:
    """An entry ``name``, ``*.name`` or ``host:port``; the default port is 443. Raises ValueError
    for anything else, and for hosts that are never allowed."""
    text = text.strip().lower()
    wildcard = text.startswith("*.")
    host, port = split_host_port(text.removeprefix("*."))
    address = parse_address(host)
    if wildcard and ("." not in host or address):
        raise ValueError("a wildcard needs a domain of at least two parts after it")
    entry = EgressHost(host, port or HTTPS, wildcard, exact=not wildcard and port is not None)
    if is_metadata(host):
        raise ValueError("a metadata service is never open to agents")
    if address and (why := explain_refusal(address, private=entry.exact)):
        if not explain_refusal(address, private=True):
            why += " (needs its port, as host:port)"
        raise ValueError(f"{why} is not open to agents")
    return entry


def split_host_port(text: str) -> tuple[str, int | None]:
    """Host (lower case, without a trailing dot) and port of ``host``, ``host:port``, ``[v6]:port``.

    Raises ValueError for anything else: a user, a path, numbers that resolvers treat as addresses
    (``0x7f.1``), characters outside ASCII.
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
    """``host:port``, as :func:`split_host_port` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(host: str) -> _Address | None:
    """The host as an address; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_metadata(host: str) -> bool:
    """True for the name of a metadata service; for their addresses see ``METADATA``."""
    return host in _METADATA_NAMES or host.endswith((".metadata.google.internal", ".metadata.goog"))


def _is_name(host: str) -> bool:
    last = host.rpartition(".")[2]
    return len(host) <= 253 and bool(_NAME.fullmatch(host)) and not _NUMBER.fullmatch(last)
