"""Which addresses an agent may be connected to: public ones, private ones only by exact name."""

import ipaddress
from ipaddress import IPv4Address, IPv6Address

Address = IPv4Address | IPv6Address
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        *("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
    )
)
"""Where clouds hand out credentials to whoever asks from within."""
_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC_4 = tuple(
    ipaddress.ip_network(text)
    for text in ("0.0.0.0/8", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4")
)
_PUBLIC_6 = ipaddress.ip_network("2000::/3")
_NOT_PUBLIC_6 = tuple(ipaddress.ip_network(text) for text in ("2001::/23", "3fff::/20"))


def explain_refusal(address: Address, private: bool) -> str:
    """Why an address is refused, "" where it may be connected to.

    ``private`` allows company networks (RFC 1918, RFC 6598, RFC 4193); metadata, loopback,
    link-local, multicast and whatever is not plainly public are refused all the same.
    """
    meant = _resolve_address(address)
    if meant is None:
        return "an address that stands for another one"
    if meant in METADATA:
        return "a metadata address"
    if any(meant in net for net in _PRIVATE if net.version == meant.version):
        return "" if private else "a private address"
    if meant.is_loopback or meant.is_link_local or meant.is_multicast or meant.is_unspecified:
        return "an address of this machine or its link"
    return "" if _public(meant) else "no public address"


def _resolve_address(address: Address) -> Address | None:
    """The address that packets go to, from one that holds another; None for tunnels."""
    if isinstance(address, IPv4Address):
        return address
    if address.scope_id is not None or address.sixtofour or address.teredo:
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _public(address: Address) -> bool:
    if not address.is_global or address.is_reserved:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in net for net in _NOT_PUBLIC_4)
    return address in _PUBLIC_6 and not any(address in net for net in _NOT_PUBLIC_6)
