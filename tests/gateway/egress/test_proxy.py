"""The proxy with real connections, and names and addresses of a simulated internet."""

import base64
import contextlib
import http.client
import select
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.gateway.egress.proxy import ProxyLimits
from gitlab_nightshift.records.events import Event
from tests.gateway.egress.tools import (
    REGISTRY,
    Agent,
    Internet,
    RunningProxy,
    agent,
    simulated_internet,
)
from tests.support.trees import wait_for


@pytest.fixture
def internet() -> Iterator[Internet]:
    with simulated_internet() as one:
        yield one


def test_an_allowed_host_is_reached_and_its_traffic_counted(internet: Internet) -> None:
    with agent(internet) as one:
        answer = one.connect("Registry.example.:443", then=b"hello bye")
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\ngot hello bye"
        traffic = one.proxy.close_bead(one.ticket)
        counts = {name: (t.sent, t.received) for name, t in traffic.items()}
        assert counts == {"registry.example:443": (9, 13)}
        assert one.notes == []
    assert internet.dialled == [(REGISTRY, 443)]


def test_urllib_accepts_the_url_of_the_ticket(internet: Internet) -> None:
    with agent(internet) as one:
        internet.names["plain.example"] = [[REGISTRY]]
        handler = urllib.request.ProxyHandler({"http": one.ticket.url})
        opener = urllib.request.build_opener(handler)
        with pytest.raises(http.client.BadStatusLine) as caught:
            opener.open("http://plain.example/x?y=z", timeout=60)
    assert str(caught.value).startswith("got GET /x?y=z HTTP/1.1")
    assert internet.dialled == [(REGISTRY, 80)]


def test_a_plain_request_loses_the_headers_for_the_proxy(internet: Internet) -> None:
    with agent(internet) as one:
        internet.names["plain.example"] = [[REGISTRY]]
        code = base64.b64encode(f"x:{one.ticket.credential}".encode()).decode()
        headers = f"Host: evil\r\nProxy-Authorization: Basic {code}"
        head = f"GET http://plain.example/a HTTP/1.1\r\n{headers}"
        answer = one.raw(f"{head}\r\n\r\n".encode())
        forwarded = b"GET /a HTTP/1.1\r\nHost: plain.example\r\nConnection: close\r\n\r\n"
        assert answer == b"got " + forwarded
        assert one.raw(head.replace("plain.", "registry.").encode() + b"\r\n\r\n")[9:12] == b"403"


REFUSED = [
    *("other.example:443", "registry.example:80", "registry.example:22", "wild.example:443"),
    *("registry.example.evil.example:443", "127.0.0.1:443", "[::1]:443", "localhost:443"),
    *("169.254.169.254:80", "metadata.google.internal:80", "10.0.0.1:443", "93.184.216.34:443"),
]


def test_other_targets_are_refused_and_reported(internet: Internet) -> None:
    with agent(internet) as one:
        assert {target: one.status(target) for target in REFUSED} == dict.fromkeys(REFUSED, "403")
        texts = [note.removeprefix("egress, implement: ") for note in one.notes]
        assert [text.partition(" ")[0].strip("'") for text in texts] == REFUSED
    assert (internet.asked, internet.dialled) == ([], [])


FORBIDDEN = {
    "loopback": ["127.0.0.1"],
    "loopback 6": ["::1"],
    "mapped": ["::ffff:127.0.0.1"],
    "private": ["10.1.2.3"],
    "link": ["169.254.1.1"],
    "metadata": ["169.254.169.254"],
    "one of two": [REGISTRY, "192.168.0.1"],
    "nat64": ["64:ff9b::a9fe:a9fe"],
    "6to4": ["2002:7f00:1::"],
    "scope": ["fe80::1%lo"],
    "no address": ["registry.example"],
}


def test_an_allowed_name_with_a_forbidden_address(internet: Internet) -> None:
    with agent(internet) as one:
        for number, (name, addresses) in enumerate(FORBIDDEN.items(), 1):
            internet.names["registry.example"] = [addresses]
            assert one.status("registry.example:443") == "403", name
            assert len(one.notes) == number, name
    assert internet.dialled == []


def test_a_name_that_changes_between_check_and_use(internet: Internet) -> None:
    """The name is resolved once for each connection, which goes to the checked address."""
    internet.names["registry.example"] = [[REGISTRY], ["127.0.0.1"], [REGISTRY], ["10.0.0.1"]]
    with agent(internet) as one:
        statuses = [one.connect("registry.example:443", then=b"bye")[9:12] for _ in range(4)]
    assert statuses == [b"200", b"403", b"200", b"403"]
    assert internet.asked == ["registry.example"] * 4
    assert internet.dialled == [(REGISTRY, 443)] * 2


def test_a_private_mirror_has_to_be_named_with_its_port(internet: Internet) -> None:
    internet.names |= {"mirror.corp": [["10.1.2.3"]], "a.wild.example": [["10.1.2.3"]]}
    with agent(internet) as one:
        assert one.connect("mirror.corp:8081", then=b"bye")[9:12] == b"200"
        assert one.status("a.wild.example:443") == "403"
        internet.names["mirror.corp"] = [["169.254.169.254"]]
        assert one.status("mirror.corp:8081") == "403"
        internet.names["mirror.corp"] = [["127.0.0.1"]]
        assert one.status("mirror.corp:8081") == "403"
    assert internet.dialled == [("10.1.2.3", 8081)]


def test_a_private_address_without_a_name(internet: Internet) -> None:
    with agent(internet, hosts=["10.1.2.3:8081"]) as one:
        assert one.connect("10.1.2.3:8081", then=b"bye")[9:12] == b"200"
        assert one.status("10.1.2.3:8082") == "403"
    assert internet.asked == []


def test_only_the_credential_of_a_running_bead_opens_a_connection(internet: Internet) -> None:
    with agent(internet) as one:
        for wrong in ("", "x", one.ticket.credential[:-1], one.ticket.credential + "0"):
            assert one.status("registry.example:443", wrong) == "407"
        assert one.raw(b"CONNECT registry.example:443 HTTP/1.1\r\n\r\n")[9:12] == b"407"
        assert one.ticket.credential not in repr(one.ticket)
        one.proxy.close_bead(one.ticket)
        assert one.status("registry.example:443") == "407"


def test_the_end_of_a_bead_cuts_its_tunnels(internet: Internet) -> None:
    with agent(internet) as one, tunnel(one, b"open") as connection:
        one.proxy.close_bead(one.ticket)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(100) == b""


@contextlib.contextmanager
def tunnel(one: Agent, then: bytes) -> Iterator[socket.socket]:
    """An open tunnel to the registry, through which ``then`` was sent."""
    code = base64.b64encode(f"n:{one.ticket.credential}".encode()).decode()
    head = f"CONNECT registry.example:443 HTTP/1.1\r\nProxy-Authorization: Basic {code}\r\n\r\n"
    expected = b"HTTP/1.1 200 Connection established\r\n\r\n"
    with socket.create_connection(("127.0.0.1", one.proxy.port), 60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(len(expected), socket.MSG_WAITALL) == expected
        connection.sendall(then)
        yield connection


def test_a_head_that_is_slow_or_too_large_is_cut_off(internet: Internet) -> None:
    with agent(internet, limits=ProxyLimits(head_s=0.3)) as one:
        for data in (
            b"",
            b"CONNECT regis",
            b"X" * 100_000,
            b"CONNECT a:1 HTTP/1.1\r\n" + b"A: b\r\n",
        ):
            one.raw(data)


def test_a_silent_tunnel_is_closed(internet: Internet) -> None:
    with agent(internet, limits=ProxyLimits(idle_s=0.3)) as one:
        answer = one.connect("registry.example:443", then=b"silent")
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n", "its server says nothing"
        (traffic,) = one.proxy.close_bead(one.ticket).values()
        assert (traffic.sent, traffic.received) == (6, 0)


def test_a_server_that_does_not_answer_is_a_bad_gateway(internet: Internet) -> None:
    internet.names["a.wild.example"] = [["203.0.114.1"]]
    with agent(internet, limits=ProxyLimits(connect_s=0.3)) as one:
        assert one.status("a.wild.example:443") == "502"
        assert one.status("b.wild.example:443") == "502"


def test_connections_are_limited_and_freed_again(internet: Internet) -> None:
    with agent(internet, limits=ProxyLimits(connections=6)) as one:
        address = ("127.0.0.1", one.proxy.port)
        connections = [socket.create_connection(address, 60) for _ in range(6)]
        with contextlib.suppress(ConnectionError):
            assert one.raw(b"") == b""  # closed at once, not silent
        assert select.select(connections, [], [], 0.1)[0] == []
        for connection in connections:
            connection.close()
        wait_for(lambda: one.status("other.example:443") == "403", "others are served")


def test_a_flood_waits_for_its_reader(internet: Internet) -> None:
    with agent(internet) as one, tunnel(one, b"flood"):
        time.sleep(0.5)
        traffic = one.proxy.close_bead(one.ticket)
    assert 0 < traffic["registry.example:443"].received < 32_000_000


def test_notes_are_bounded_and_printable(internet: Internet) -> None:
    with agent(internet) as one:
        for number in range(80):
            one.status(f"{'a' * 60}.{number}.example:443")
        one.status("evil\x1b[31m.example:443")
        assert len(one.notes) == 50
        assert all(note.isprintable() for note in one.notes)


def test_the_proxy_also_serves_a_unix_socket_of_this_user_alone(
    internet: Internet, tmp_path: Path
) -> None:
    path = tmp_path / "egress.sock"
    with agent(internet, path=path) as one:
        assert path.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(b"CONNECT registry.example:443 HTTP/1.1\r\n\r\n")
            assert connection.recv(100)[9:12] == b"407"
        assert one.notes == []


def test_a_host_that_is_never_allowed_is_refused_at_the_start(internet: Internet) -> None:
    for host in ("*", "169.254.169.254:80"):
        with pytest.raises(ValueError), agent(internet, hosts=[host]):
            pass


def test_the_real_resolver_and_dialler() -> None:
    """``localhost`` is looked up and refused; nothing is allowed by default."""
    events: list[Event] = []
    with RunningProxy(["localhost:9"], events.append) as proxy:
        one = Agent(proxy, proxy.open_bead("verify"), Internet(0), events)
        assert one.status("localhost:9") == "403"
        assert "an address of this machine" in one.notes[0]
    with RunningProxy([], events.append) as proxy:
        one = Agent(proxy, proxy.open_bead("verify"), Internet(0), events)
        assert one.status("example.org:443") == "403"
