"""A simulated internet: its names and addresses are invented, the connections are real."""

import asyncio
import base64
import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gitlab_nightshift.gateway.control_messages import EgressTicket
from gitlab_nightshift.gateway.egress.proxy import EgressProxy, ProxyLimits
from gitlab_nightshift.gateway.egress.route import Streams, Traffic
from gitlab_nightshift.records.events import Emit, Event, Note
from tests.support.loops import LoopThread, bound

HOSTS = ["registry.example", "*.wild.example", "mirror.corp:8081", "plain.example:80"]
REGISTRY = "93.184.216.34"


@dataclass
class Internet:
    """Names with their addresses, one answer after the other; every address leads to one server on
    loopback."""

    port: int
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self.names.get(host)
        if not answers:
            raise socket.gaierror("unknown")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def dial(self, address: str, port: int) -> Streams:
        self.dialled.append((address, port))
        if address.startswith("203.0.114."):
            await asyncio.sleep(600)
        return Streams(*await asyncio.open_connection("127.0.0.1", self.port))


class RunningProxy:
    """A proxy in a thread of its own, for tests that block."""

    def __init__(
        self, hosts: list[str], emit: Emit, *, path: Path | None = None, **options: Any
    ) -> None:
        self._path, self._inner = path, EgressProxy(hosts, emit, **options)

    def __enter__(self) -> Self:
        self._thread = LoopThread("egress-proxy", lambda name: None)
        with bound(self._path) as unix:
            self.port = self._thread.run(self._inner.start(unix), 60)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.run(self._inner.stop(), 60)
        self._thread.stop()

    def open_bead(self, bead: str) -> EgressTicket:
        return self._inner.open_bead(bead)

    def close_bead(self, ticket: EgressTicket) -> dict[str, Traffic]:
        return self._thread.run(self._inner.close_bead(ticket), 60)


@dataclass
class Agent:
    """A bead with its proxy."""

    proxy: RunningProxy
    ticket: EgressTicket
    internet: Internet
    events: list[Event]

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Note)]

    def raw(self, data: bytes) -> bytes:
        """Send bytes as they are; returns all that is received."""
        received = b""
        with socket.create_connection(("127.0.0.1", self.proxy.port), 60) as connection:
            connection.sendall(data)
            with contextlib.suppress(ConnectionError):
                while chunk := connection.recv(65536):
                    received += chunk
        return received

    def connect(self, target: str, credential: str | None = None, then: bytes = b"") -> bytes:
        """Send a CONNECT, and ``then`` more bytes; returns all that is received."""
        password = self.ticket.credential if credential is None else credential
        code = base64.b64encode(f"nightshift:{password}".encode()).decode()
        head = f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {code}\r\n\r\n"
        return self.raw(head.encode("utf-8") + then)

    def status(self, target: str, credential: str | None = None) -> str:
        return self.connect(target, credential)[9:12].decode()


@contextlib.contextmanager
def simulated_internet() -> Iterator[Internet]:
    """Its server sends back what it received, after a head, "bye" or the end; or else a flood."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
                if received.endswith((b"\r\n\r\n", b"bye")):
                    break
                while received == b"flood":
                    connection.sendall(b"x" * 65536)
            connection.sendall(b"got " + received)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield Internet(server.getsockname()[1], {"registry.example": [[REGISTRY]]})
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(60)


@contextlib.contextmanager
def agent(
    internet: Internet,
    *,
    hosts: list[str] | None = None,
    limits: ProxyLimits | None = None,
    path: Path | None = None,
) -> Iterator[Agent]:
    events: list[Event] = []
    with RunningProxy(
        HOSTS if hosts is None else hosts,
        events.append,
        path=path,
        limits=limits,
        resolve=internet.resolve,
        dial=internet.dial,
    ) as proxy:
        yield Agent(proxy, proxy.open_bead("implement"), internet, events)
