"""A gateway between a client of raw sockets and an endpoint of raw sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import pytest

from gitlab_nightshift.gateway.control_messages import BeadTicket
from gitlab_nightshift.gateway.cost_account import Account
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.model_gateway import Gateway
from gitlab_nightshift.gateway.upstream import ModelKey, Upstream, build_upstream
from gitlab_nightshift.gateway.usage_reports import UsageReader
from gitlab_nightshift.records.events import Emit, Event, Note
from gitlab_nightshift.records.usage import Usage, add_usage
from tests.support.loops import LoopThread, bound
from tests.support.turns import JsonObject

KEY = "sk-ant-the-real-key-0123456789abcdef"
MODEL = "claude-sonnet-4-6"
TOOL = {"name": "Bash", "description": "Run", "input_schema": {"type": "object"}}
Play = Callable[[socket.socket, int], None]


def about(number: float) -> Any:
    """A number with a rounding error."""
    return pytest.approx(number)


def message(**body: object) -> JsonObject:
    """A valid request of Messages."""
    messages = [{"role": "user", "content": "Hello"}]
    return {"model": MODEL, "max_tokens": 2000, "messages": messages, **body}


class RawEndpoint:
    """An endpoint that answers by ``play``, which gets the socket and the number of a request."""

    def __init__(self, play: Play) -> None:
        self.requests: list[bytes] = []
        self._play = play
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> RawEndpoint:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            raw = b""
            while b"\r\n\r\n" not in raw:
                raw += connection.recv(65536) or _disconnect()
            head, _, body = raw.partition(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            while len(body) < size:
                body += connection.recv(65536) or _disconnect()
            self.requests.append(head + b"\r\n\r\n" + body)
            self._play(connection, len(self.requests))


def hang(connection: socket.socket) -> None:
    """Wait until the other side, or the test, closes the connection."""
    connection.recv(1)


def _disconnect() -> bytes:
    raise ConnectionResetError


def head(status: int, kind: str, *headers: str) -> bytes:
    """The head of an answer that ends with its connection."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode()


def json_answer(status: int, value: object, *headers: str) -> Play:
    """An answer of JSON, without a stream."""
    raw = json.dumps(value).encode()
    start = head(status, "application/json", f"Content-Length: {len(raw)}", *headers)
    return lambda connection, number: connection.sendall(start + raw)


def events(*rows: JsonObject, closed: bool = True) -> bytes:
    """Server-sent events; after ``ended`` the closing mark is added if ``closed``."""
    if closed and rows[-1]["type"] == "message_delta":
        rows = (*rows, {"type": "message_stop"})
    return b"".join(f"event: {row['type']}\ndata: {json.dumps(row)}\n\n".encode() for row in rows)


STREAM = head(200, "text/event-stream")


def started(tokens: int) -> JsonObject:
    """The first event of a stream."""
    usage = {"input_tokens": tokens, "output_tokens": 1}
    return {"type": "message_start", "message": {"id": "m", "usage": usage}}


def delta(text: str) -> JsonObject:
    """Some text of a stream."""
    return {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text},
    }


def ended(tokens: int) -> JsonObject:
    """The last figures of a stream."""
    usage = {"output_tokens": tokens}
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


class RunningGateway:
    """A gateway in a thread of its own, for tests that block."""

    def __init__(
        self, target: Upstream, emit: Emit, *, path: Path | None = None, **options: Any
    ) -> None:
        self._path, self.inner = path, Gateway(target, emit, **options)

    def __enter__(self) -> RunningGateway:
        self.thread = LoopThread("gateway", lambda name: None)
        try:
            with bound(self._path) as unix_socket:
                self.thread.run(self.inner.start(unix_socket), 60)
        except BaseException:
            self.thread.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.thread.run(self.inner.stop(), 60)
        self.thread.stop()

    @property
    def unusable(self) -> str:
        return self.inner.unusable

    def open_bead(
        self,
        bead: str,
        models: Collection[str],
        *,
        budget_usd: float | None,
        budget_tokens: int | None = None,
    ) -> BeadTicket:
        return self.inner.open_bead(
            bead, models, budget_usd=budget_usd, budget_tokens=budget_tokens
        )

    def close_bead(self, ticket: BeadTicket, wait_s: float = 0.0) -> Usage:
        async def close() -> Usage:
            await self.inner.drain_bead(ticket.placeholder, wait_s)
            return await self.inner.close_bead(ticket.placeholder)

        return self.thread.run(close(), wait_s + 60)

    def usage(self, ticket: BeadTicket) -> Usage:
        return self._find_account(ticket).read_usage()

    def is_exhausted(self, ticket: BeadTicket) -> bool:
        return self._find_account(ticket).exhausted

    def _find_account(self, ticket: BeadTicket) -> Account:
        account = self.inner.find_account(ticket.placeholder)
        assert account
        return account


@dataclass
class Client:
    """An agent's side: a running gateway and the ticket of a bead."""

    gateway: RunningGateway
    ticket: BeadTicket
    emitted: list[Event]

    @property
    def port(self) -> int:
        return urlsplit(self.ticket.base_url).port or 0

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.emitted if isinstance(event, Note)]

    def ask(
        self,
        body: object = None,
        path: str = "/v1/messages",
        method: str = "POST",
        timeout_s: float = 60,
        **headers: str,
    ) -> tuple[int, Any]:
        """Send a request with the bead's placeholder; returns the status, and the JSON or text."""
        status, _, raw = self.fetch(body, path, method, timeout_s, **headers)
        try:
            return status, json.loads(raw)
        except ValueError:
            return status, raw.decode("utf-8", "replace")

    def fetch(
        self, body: object, path: str, method: str, timeout_s: float, **headers: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        raw = body if isinstance(body, bytes) else json.dumps(body or message()).encode()
        sent = {"content-type": "application/json", "x-api-key": self.ticket.placeholder}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            data = None if method in ("GET", "HEAD") else raw
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def raw(self, data: bytes) -> bytes:
        """Send bytes as they are; returns all that is received."""
        received = b""
        with (
            socket.create_connection(("127.0.0.1", self.port), 60) as connection,
            contextlib.suppress(OSError),
        ):
            connection.sendall(data)
            while chunk := connection.recv(65536):
                received += chunk
        return received

    def refusal(self, body: object) -> str:
        """The message with which a request is refused (status 400)."""
        status, answer = self.ask(body)
        assert status == 400, answer
        assert answer["type"] == "error"
        text: str = answer["error"]["message"]
        return text


def ask(ticket: BeadTicket, body: object) -> int:
    """The status of a request with a bead's placeholder; 0 if the connection breaks."""
    connection = http.client.HTTPConnection(urlsplit(ticket.base_url).netloc, timeout=60)
    headers = {"content-type": "application/json", "x-api-key": ticket.placeholder}
    try:
        connection.request("POST", "/v1/messages", json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


@contextlib.contextmanager
def client(
    url: str,
    *,
    variable: str = "ANTHROPIC_API_KEY",
    models: tuple[str, ...] = (MODEL,),
    budget_usd: float | None = 10.0,
    budget_tokens: int | None = None,
    limits: GatewayLimits | None = None,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[Client]:
    """A gateway for the endpoint at ``url``, with one open bead."""
    emitted: list[Event] = []
    target = build_upstream(ModelKey(variable, KEY), url, env or {})
    with RunningGateway(target, emitted.append, limits=limits, **options) as gateway:
        ticket = gateway.open_bead(
            "analyze", models, budget_usd=budget_usd, budget_tokens=budget_tokens
        )
        yield Client(gateway, ticket, emitted)


def sum_reported_usage(data: bytes) -> Usage:
    """The sum of all usage in the lines of a pipe."""
    reader = UsageReader()
    reader.feed(data)
    return add_usage(reader.list_usage())
