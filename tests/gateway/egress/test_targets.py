"""The hosts and addresses that agents may connect to, and how targets are parsed."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.gateway.egress.proxy import parse_head
from gitlab_nightshift.settings.allowed_hosts import (
    METADATA,
    explain_refusal,
    parse_egress_host,
    split_host_port,
)

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
PRIVATE = [
    *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fd12::1"),
    *("::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "fc00::1"),
]
NEVER = [
    *("2606:4700::1%eth0", "fd12::1%eth0"),
    *("127.0.0.1", "127.8.9.10", "::1", "0.0.0.0", "::", "0.1.2.3", "255.255.255.255"),
    *("169.254.1.1", "169.254.169.254", "169.254.170.2", "fe80::1", "fe80::1%eth0"),
    "fd00:ec2::254",
    *("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
    *("224.0.0.1", "239.1.1.1", "224.0.1.1", "ff02::1", "ff0e::1", "240.0.0.1", "192.0.2.1"),
    *("198.18.0.1", "198.51.100.1", "203.0.113.1", "192.0.0.8", "192.88.99.1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::100.100.100.200"),
    *("64:ff9b:1::1", "2002:7f00:1::", "2002:0a00:1::", "2002:808:808::", "2001:0:1::1"),
    *("2001:db8::1", "3fff::1", "100::1", "fec0::1", "5f00::1", "2001:20::1", "4000::1"),
]


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses(text: str) -> None:
    assert explain_refusal(ipaddress.ip_address(text), private=False) == ""


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses_only_where_named(text: str) -> None:
    assert explain_refusal(ipaddress.ip_address(text), private=False) == "a private address"
    assert explain_refusal(ipaddress.ip_address(text), private=True) == ""


@pytest.mark.parametrize("text", NEVER)
def test_addresses_that_are_never_allowed(text: str) -> None:
    for private in (False, True):
        assert explain_refusal(ipaddress.ip_address(text), private)


@given(st.ip_addresses())
def test_only_plainly_public_addresses_pass(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if explain_refusal(address, private=False) == "":
        target = address
        if isinstance(address, ipaddress.IPv6Address):
            target = address.ipv4_mapped or address
        nat64 = ipaddress.ip_network("64:ff9b::/96")
        assert address in nat64 or (target.is_global and not target.is_multicast)
        assert target not in METADATA


HOSTS = ["Registry.NPMjs.org", "*.example.org", "mirror.corp:8081", "[2606:4700::1]:443"]


@pytest.mark.parametrize(
    ("host", "port", "allowed"),
    [
        ("registry.npmjs.org", 443, True),
        ("a.example.org", 443, True),
        ("a.b.example.org", 443, True),
        ("mirror.corp", 8081, True),
        ("2606:4700::1", 443, True),
        ("registry.npmjs.org", 80, False),
        ("registry.npmjs.org.evil.example", 443, False),
        ("evilregistry.npmjs.org", 443, False),
        ("npmjs.org", 443, False),
        ("example.org", 443, False),
        ("evilexample.org", 443, False),
        ("mirror.corp", 443, False),
        ("a.mirror.corp", 8081, False),
    ],
)
def test_hosts_are_matched_completely(host: str, port: int, allowed: bool) -> None:
    assert any(parse_egress_host(each).covers(host, port) for each in HOSTS) is allowed


INVALID = [
    *("https://a.example", "a.example/path", "user@a.example", "*", "*.org", "a.*.example"),
    *("a.example:0", "a.example:99999", "a.example:http", "", "exa mple.org", "münchen.de"),
    *("metadata.google.internal", "metadata:80", "2130706433", "127.1", "0x7f.1", "*.10.0.0.1"),
    *("a..example", "-a.example", "127.0.0.1:80", "[::1]:80", "169.254.169.254:80", "10.1.2.3"),
    *("100.100.100.200:80", "[fd00:ec2::254]:80", "Metadata.Google.Internal.:80", "0.0.0.0:1"),
]


@pytest.mark.parametrize("text", INVALID)
def test_a_host_that_cannot_be_allowed_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_egress_host(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" Registry.NPMjs.org ", "registry.npmjs.org:443"),
        ("*.example.org", "*.example.org:443"),
        ("[FD12::1]:8081", "[fd12::1]:8081"),
        ("10.1.2.3:8081", "10.1.2.3:8081"),
    ],
)
def test_allowed_hosts_as_they_are_shown(text: str, shown: str) -> None:
    assert str(parse_egress_host(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("a@b.example:443", "a.example:443:443", "a.example:", "[::1", "::1", "[a.example]:443"),
        *("a.example/x:443", "a.example\\x:443", "0177.0.0.1:443", "0x7f000001:443", "1.2.3:443"),
        *("xn--\u00e4:443", "a.example%00:443", "a%2eexample:443", "[fe80::1%eth0]:443"),
        "a.example:+443",
    ],
)
def test_an_ambiguous_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        split_host_port(text)


def test_targets_are_normalized() -> None:
    assert split_host_port("A.Example.:443") == ("a.example", 443)
    assert split_host_port("[::1]:80") == ("::1", 80)
    assert split_host_port("10.0.0.1") == ("10.0.0.1", None)


def test_a_plain_request_is_rewritten_for_its_server() -> None:
    head = parse_head(
        "GET http://Mirror.Corp:8081/a/b?c=d HTTP/1.1\r\nHost: evil.example\r\nAccept: */*\r\n"
        "Proxy-Authorization: Basic bjpz\r\nConnection: keep-alive, Accept\r\nUpgrade: h2c\r\n\r\n"
    )
    assert (head.host, head.port, head.credential) == ("mirror.corp", 8081, "s")
    assert head.forwarded == (
        b"GET /a/b?c=d HTTP/1.1\r\nHost: mirror.corp:8081\r\nConnection: close\r\n"
        b"Accept: */*\r\n\r\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "GET / HTTP/1.1\r\n\r\n",
        "GET https://a.example/ HTTP/1.1\r\n\r\n",
        "GET ftp://a.example/ HTTP/1.1\r\n\r\n",
        "CONNECT a.example HTTP/1.1\r\n\r\n",
        "CONNECT http://a.example:443 HTTP/1.1\r\n\r\n",
        "CONNECT a.example:443 HTTP/2.0\r\n\r\n",
        "CONNECT  a.example:443 HTTP/1.1\r\n\r\n",
        "CONNECT a.example:443 HTTP/1.1\r\nA : b\r\n\r\n",
        "CONNECT a.example:443 HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "CONNECT a.example:443 HTTP/1.1\r\nA: b\nC: d\r\n\r\n",
        "CONNECT a.example:443 HTTP/1.1\r\nA: \x00\r\n\r\n",
        "GET http://a.example@evil.example/ HTTP/1.1\r\n\r\n",
        "GET http://a.example?x HTTP/1.1\r\n\r\n",
        "GET http:///x HTTP/1.1\r\n\r\n",
        "\r\n\r\n",
    ],
)
def test_a_malformed_head_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_head(text)


@given(st.text(max_size=200))
def test_any_head_is_parsed_or_refused(text: str) -> None:
    for first in ("", "CONNECT ", "GET http://a.example"):
        try:
            head = parse_head(f"{first}{text}\r\n\r\n")
        except ValueError:
            continue
        assert head.host
