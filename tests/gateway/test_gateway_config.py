"""Targets through the job's proxy: what is sent to it, and how its answers are read."""

import base64
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from gitlab_nightshift.gateway.egress.proxy import ProxyLimits
from gitlab_nightshift.gateway.gateway_config import JobProxy, parse_proxy
from gitlab_nightshift.records.events import Event
from tests.gateway.egress.tools import Agent, Internet, RunningProxy

HOSTS = [
    *("registry.example", "10.1.2.3:8081", "localhost:9", "a.localhost", "[fd12::1]:443"),
    "*.google.internal:80",
]


class CompanyProxy:
    """A proxy that answers every request with ``answer``."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.requests = answer, list[str]()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            self.requests.append(connection.recv(65536).decode())
            connection.sendall(self.answer)
            if data := connection.recv(65536):
                connection.sendall(b"got " + data)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@contextlib.contextmanager
def behind(
    answer: bytes, user: str = "", limits: ProxyLimits | None = None
) -> Iterator[tuple[CompanyProxy, Agent]]:
    company, events = CompanyProxy(answer), list[Event]()
    chosen = parse_proxy(f"http://{user}127.0.0.1:{company.port}")
    with RunningProxy(
        HOSTS, events.append, limits=limits, choose_proxy=lambda _h, _p: chosen
    ) as proxy:
        yield company, Agent(proxy, proxy.open_bead("implement"), Internet(0), events)
    company.close()


GOOD = b"HTTP/1.1 200 OK\r\nVia: company\r\n\r\n"


def test_a_tunnel_in_a_tunnel() -> None:
    with behind(GOOD, "ci%40acme:se%3Asame@") as (company, one):
        answer = one.connect("registry.example:443", then=b"hello")
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\ngot hello"
        code = base64.b64encode(b"ci@acme:se:same").decode()
        head = "CONNECT registry.example:443 HTTP/1.1\r\nHost: registry.example:443\r\n"
        assert company.requests == [f"{head}Proxy-Authorization: Basic {code}\r\n\r\n"]
        assert one.connect("[fd12::1]:443", then=b"x")[9:12] == b"200"
        assert company.requests[1].startswith("CONNECT [fd12::1]:443 ")


def test_without_a_user_no_credential_is_sent() -> None:
    with behind(GOOD) as (company, one):
        assert one.connect("10.1.2.3:8081", then=b"hello")[9:12] == b"200"
        assert "Proxy-Authorization" not in company.requests[0]


@pytest.mark.parametrize(
    "target",
    [
        *("other.example:443", "registry.example:80", "10.1.2.4:8081", "169.254.169.254:80"),
        *("localhost:9", "a.localhost:443", "metadata.google.internal:80", "127.0.0.1:443"),
    ],
)
def test_forbidden_targets_never_reach_the_proxy(target: str) -> None:
    with behind(GOOD) as (company, one):
        assert one.status(target) == "403"
        assert company.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000,
        b"",
    ],
)
def test_a_proxy_that_opens_no_tunnel_is_a_bad_gateway(answer: bytes) -> None:
    with behind(answer, limits=ProxyLimits(connect_s=0.5)) as (_, one):
        assert one.status("registry.example:443") == "502"


def test_a_proxy_that_cannot_be_reached_is_a_bad_gateway() -> None:
    with behind(GOOD) as (company, one):
        company.close()
        company.close = lambda: None  # type: ignore[method-assign]
        assert one.status("registry.example:443") == "502"


@pytest.mark.parametrize(
    "url",
    [
        *("socks5://p:1", "https://p:1", "http://", "http://p:port", "p:1", "http://[p"),
        "http://user:word/pass@p:1",
    ],
)
def test_proxies_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a proxy such as http://proxy\.example:3128$"):
        parse_proxy(url)


def test_no_repr_shows_the_credential() -> None:
    assert parse_proxy("http://u:pass-word@p") == JobProxy("p", 80, "dTpwYXNzLXdvcmQ=")
    assert "dTpwYXNz" not in repr(parse_proxy("http://u:pass-word@p"))
