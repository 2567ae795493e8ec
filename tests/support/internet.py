"""An internet for whole nights: a server of ours, and a company's proxy that leads to it."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gitlab_nightshift.settings.allowed_hosts import explain_refusal, parse_address

SAYS = "the page of the mirror"


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(SAYS)))
        self.end_headers()
        self.wfile.write(SAYS.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


@contextlib.contextmanager
def page(address: str) -> Iterator[int]:
    """A server on an address of this machine; its port."""
    kind = _Server6 if ":" in address else _Server
    with _serving(kind((address, 0), _Page)) as port:
        yield port


@contextlib.contextmanager
def _serving(server: _Server) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@dataclass
class CompanyProxy:
    """A proxy that answers CONNECT, whatever the host: what was asked, and by whom."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    credentials: set[str] = field(default_factory=set)


@contextlib.contextmanager
def company_proxy(leads_to: int) -> Iterator[CompanyProxy]:
    """Every tunnel ends at the loopback port ``leads_to``; ``closed.example`` is refused."""
    proxy = CompanyProxy()

    class Tunnel(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            proxy.asked.append(self.path)
            proxy.credentials.add(self.headers.get("Proxy-Authorization", ""))
            if self.path.startswith("closed.example"):
                self.send_error(403)
                return
            self.send_response(200)
            self.end_headers()
            with socket.create_connection(("127.0.0.1", leads_to), 5) as way:
                ways = [(self.connection, way), (way, self.connection)]
                threads = [threading.Thread(target=_carry, args=w, daemon=True) for w in ways]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(5)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    with _serving(_Server(("127.0.0.1", 0), Tunnel)) as proxy.port:
        yield proxy


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def own_private_address() -> str:
    """An address of this machine in a company's range, "" where it has none."""
    for family, nowhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as udp, contextlib.suppress(OSError):
            udp.connect((nowhere, 53))  # sends nothing
            own = parse_address(udp.getsockname()[0])
            if (
                own
                and explain_refusal(own, private=False)
                and not explain_refusal(own, private=True)
            ):
                return str(own)
    return ""
