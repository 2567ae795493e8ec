"""The targets of attacks on the gateway: the endpoint, the gateway, and a careless gateway.

The endpoint answers everything with a flag. So what comes back through the gateway shows what it
let through; a gateway that only adds the key shows that the attack itself works.
"""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.upstream import ModelKey, build_upstream
from gitlab_nightshift.records.events import Event
from tests.gateway.tools import KEY, MODEL, Play, RawEndpoint, RunningGateway, json_answer

LIMITS = GatewayLimits(body_bytes=1_000_000)
_HOST = re.compile(
    rb"^(?:\w+ (?:http://)?(127\.0\.0\.1:\d+)[ /]|.*\r\nhost: (127\.0\.0\.1:\d+))", re.S
)


@dataclass(frozen=True)
class Way:
    """What of ``Places`` is about the gateway."""

    gateway: int
    placeholder: str
    old_placeholder: str
    model: str = MODEL

    @property
    def places(self) -> dict[str, object]:
        """As JSON."""
        return asdict(self)


def flagged(flag: str) -> Play:
    """The endpoint's answer to whatever it is asked."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    text = [{"type": "text", "text": flag}]
    message = {"id": "m", "type": "message", "role": "assistant", "model": MODEL}
    return json_answer(200, {**message, "content": text, "stop_reason": "end_turn", "usage": usage})


@contextlib.contextmanager
def careful(flag: str, path: Path) -> Iterator[Way]:
    """The gateway, with one bead running and one that is over; it listens on ``path``, too."""
    emitted: list[Event] = []
    with RawEndpoint(flagged(flag)) as endpoint:
        target = build_upstream(ModelKey("ANTHROPIC_API_KEY", KEY), endpoint.url, {})
        with RunningGateway(target, emitted.append, limits=LIMITS, path=path) as gateway:
            old = gateway.open_bead("analyze", {MODEL}, budget_usd=10)
            gateway.close_bead(old)
            ticket = gateway.open_bead("implement", {MODEL}, budget_usd=10)
            port = int(ticket.base_url.rpartition(":")[2])
            yield Way(port, ticket.placeholder, old.placeholder)


@contextlib.contextmanager
def careless(flag: str) -> Iterator[Way]:
    """A gateway that passes on everything to wherever the request says."""
    with (
        RawEndpoint(flagged(flag)) as endpoint,
        socket.create_server(("127.0.0.1", 0), backlog=512) as server,
    ):
        port = server.getsockname()[1]
        usual = ("127.0.0.1", int(endpoint.url.rpartition(":")[2]))
        threading.Thread(target=_accept, args=(server, usual, port), daemon=True).start()
        yield Way(port, "sk-placeholder", "sk-old")
        server.shutdown(socket.SHUT_RDWR)


def _accept(server: socket.socket, usual: tuple[str, int], own: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            guest, _ = server.accept()
            threading.Thread(target=_pass_on, args=(guest, usual, own), daemon=True).start()


def _pass_on(guest: socket.socket, usual: tuple[str, int], own: int) -> None:
    with guest, contextlib.suppress(OSError):
        if not (first := guest.recv(1 << 16)):
            return
        asked = _HOST.match(first)
        host, port = usual
        if asked and int((asked[1] or asked[2]).partition(b":")[2]) != own:
            port = int((asked[1] or asked[2]).partition(b":")[2])
        with socket.create_connection((host, port), 60) as way:
            way.sendall(first)
            back = threading.Thread(target=_pump, args=(way, guest), daemon=True)
            back.start()
            _pump(guest, way)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
