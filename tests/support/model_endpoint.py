"""A model endpoint for tests: speaks Anthropic Messages, OpenAI's Responses and Chat Completions
on loopback, answers from a script.

    with ModelEndpoint([bash("git status"), answer({"passed": True})]) as endpoint:
        run_the_cli(env={"ANTHROPIC_BASE_URL": endpoint.url, ...})
    assert endpoint.messages[0].tools == ["Bash", "Read", "StructuredOutput"]

A script is a list of turns, given out in order over all connections, or a function of the request,
or one script for each bead, chosen by `bead_of(request)`:

    ModelEndpoint({"analyze": [...], "verify": [...]}, bead_of=by_phrase({"Rank": "analyze", ...}))
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit

from tests.support.chat import completion, completion_events
from tests.support.responses import response, response_events
from tests.support.turns import JsonObject, Request, Script, Turn, error


class ModelEndpoint:
    """The server, running between `with` and its end; `requests` is everything it was asked.

    A request that the script has no turn for gets status 400, which no client retries, and is
    kept in `unscripted`: a test that ends well asserts that this is empty. What a script's own
    function raises is raised again at the end of the `with` block.
    """

    def __init__(
        self,
        script: Script | Mapping[str, Script],
        bead_of: Callable[[Request], str] = lambda request: "",
    ) -> None:
        self.script, self.bead_of = script, bead_of
        self.requests: list[Request] = []
        self.unscripted: list[Request] = []
        self.faults: list[Exception] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._given: dict[str, int] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def messages(self) -> list[Request]:
        """The model requests alone, without token counts and whatever else was asked."""
        return [r for r in self.requests if urlsplit(r.path).path in _MODEL_PATHS]

    def __enter__(self) -> ModelEndpoint:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if value is None and self.faults:
            raise self.faults[0]

    def record(self, request: Request) -> None:
        with self._lock:
            self.requests.append(request)

    def turn_for(self, request: Request) -> Turn:
        """The next turn of the script that this request belongs to."""
        with self._lock:
            bead, script = "", self.script
            if isinstance(script, Mapping):
                bead = self.bead_of(request)
                script = script.get(bead, ())
            if callable(script):
                return self._call(script, request)
            number = self._given.get(bead, 0)
            self._given[bead] = number + 1
            if number < len(script):
                return script[number]
            self.unscripted.append(request)
            return error(400, "invalid_request_error", f"no turn {number + 1} for bead '{bead}'")

    def _call(self, script: Callable[[Request], Turn], request: Request) -> Turn:
        try:
            return script(request)
        except Exception as fault:
            self.faults.append(fault)
            return error(400, "invalid_request_error", f"the script raised {fault!r}")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Handler", (_Handler,), {"endpoint": self})


class _Handler(BaseHTTPRequestHandler):
    """HTTP/1.0, so that the end of an answer is the end of its connection."""

    endpoint: ModelEndpoint

    def log_message(self, format: str, *args: object) -> None:
        """A test's output is no place for a server's log."""

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that was killed in the middle of an answer
            super().handle()

    def do_GET(self) -> None:
        self.endpoint.record(self._request(b""))
        if urlsplit(self.path).path == "/v1/models":
            self._send(200, {"data": [], "has_more": False, "first_id": None, "last_id": None})
        else:
            self._send(404, {"type": "error", "error": {"type": "not_found_error"}})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        request = self._request(self.rfile.read(int(self.headers.get("content-length", 0))))
        self.endpoint.record(request)
        path = urlsplit(self.path).path
        if path in _MODEL_PATHS:
            self._play(request, self.endpoint.turn_for(request))
        elif path == "/v1/messages/count_tokens":
            self._send(200, {"input_tokens": len(json.dumps(request.body)) // 4})
        else:
            self._send(404, {"type": "error", "error": {"type": "not_found_error"}})

    def _request(self, raw: bytes) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            body = {}
        return Request(self.command, self.path, headers, body if isinstance(body, dict) else {})

    def _play(self, request: Request, turn: Turn) -> None:
        if self.endpoint.closing.wait(turn.delay_s) or turn.hang:
            self.endpoint.closing.wait()
        elif turn.status != 200:
            self._send(turn.status, turn.error_body.encode(), turn.headers)
        else:
            self._answer(request, turn)

    def _answer(self, request: Request, turn: Turn) -> None:
        make, stream = _MODEL_PATHS[urlsplit(request.path).path]
        whole = make(request, turn)
        if request.body.get("stream"):
            self._stream(stream(whole), turn)
        else:
            self._send(200, whole, turn.headers)

    def _send(
        self, status: int, body: JsonObject | bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._head(status, {"content-type": "application/json", **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _stream(self, events: Iterator[JsonObject], turn: Turn) -> None:
        self._head(200, {"content-type": "text/event-stream", **turn.headers})
        for event in itertools.islice(events, turn.lost_after):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            if turn.stall:
                self.endpoint.closing.wait()
                return

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


_numbers = itertools.count(1)


def _message(request: Request, turn: Turn) -> JsonObject:
    """The whole answer; ids are never used twice, since a client merges answers with one id."""
    blocks: list[JsonObject] = [{"type": "text", "text": turn.text}] if turn.text else []
    blocks += [
        {"type": "tool_use", "id": f"toolu_{next(_numbers):08}", "name": c.name, "input": c.input}
        for c in turn.calls
    ]
    return {
        "id": f"msg_{next(_numbers):08}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": blocks,
        "stop_reason": turn.stop_reason,
        "stop_sequence": None,
        "usage": asdict(turn.usage),
    }


def _events(message: JsonObject) -> Iterator[JsonObject]:
    """The same answer as a stream of server-sent events."""
    usage = {**message["usage"], "output_tokens": 1}  # as the service does: the rest comes last
    head = {**message, "content": [], "stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": head}
    for index, block in enumerate(message["content"]):
        empty, delta = _halves(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": message["usage"]}
    yield {"type": "message_stop"}


_MODEL_PATHS = {
    "/v1/messages": (_message, _events),
    "/v1/responses": (response, response_events),
    "/v1/chat/completions": (completion, completion_events),
}


def _halves(block: JsonObject) -> tuple[JsonObject, JsonObject]:
    """How a block starts, and the one delta that fills it."""
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    arguments = json.dumps(block["input"])
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": arguments}
