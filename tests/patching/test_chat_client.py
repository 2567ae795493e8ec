"""The client for Chat Completions, on a real socket."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gitlab_nightshift.patching.chat_client import ChatClient, EndpointError

ASK = [{"role": "user", "content": "?"}]


@contextmanager
def endpoint(body: str, status: int = 200, kind: str = "text/event-stream") -> Iterator[str]:
    """Answers every request with the same bytes; its address has a path of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            good = (self.path, self.headers["authorization"]) == (
                "/base/v1/chat/completions",
                "Bearer key",
            )
            self.send_response(status if good else 418)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/base"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def chunk(text: str | None = None, reason: str | None = None) -> str:
    choice = {"delta": {} if text is None else {"content": text}, "finish_reason": reason}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


def asked(body: str, status: int = 200, kind: str = "text/event-stream") -> str:
    with endpoint(body, status, kind) as url:
        return ChatClient(url, "key", "m").ask(ASK)


def test_a_stream_is_put_together() -> None:
    body = f": hello\n\n{chunk('a')}{chunk()}{chunk('ä')}{chunk(reason='stop')}"
    heard: list[int] = []
    with endpoint(body + 'data: {"choices": [], "usage": {}}\n\ndata: [DONE]\n\n') as url:
        assert ChatClient(url, "key", "m", heard.append).ask(ASK) == "aä"
    assert heard == [1, 1, 2, 2, 2]


def test_a_server_that_does_not_stream() -> None:
    body = json.dumps({"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]})
    assert asked(body, kind="application/json") == "whole"


def test_the_thoughts_of_a_local_model_are_no_part_of_its_answer() -> None:
    assert asked(chunk("<think>\nhm\n</think>\n\nyes") + chunk(reason="stop")) == "yes"


@pytest.mark.parametrize(
    ("body", "status", "kind", "why"),
    [
        (
            '{"error": {"message": "no such\\nmodel"}}',
            404,
            "application/json",
            "HTTP 404: no such model",
        ),
        ('{"error": "broken"}', 500, "application/json", "HTTP 500: broken"),
        ("<html>", 502, "text/html", "HTTP 502$"),
        (chunk("cut") + chunk(reason="length"), 200, "text/event-stream", "cut off at the model's"),
        (chunk(reason="stop"), 200, "text/event-stream", "the answer is empty"),
        ("data: {\n\n", 200, "text/event-stream", "no JSON of Chat Completions"),
        ('data: {"error": {"message": "x"}}\n\n', 200, "text/event-stream", "endpoint failed"),
        ("{}", 200, "application/json", "the answer is empty"),
        ("[]", 200, "application/json", "no JSON of Chat Completions"),
        ('{"choices": [1]}', 200, "application/json", "the answer is empty"),
        ("x" * 4_000_001, 200, "application/json", "too large"),
    ],
)
def test_what_is_no_answer_is_told(body: str, status: int, kind: str, why: str) -> None:
    with pytest.raises(EndpointError, match=why) as caught:
        asked(body, status, kind)
    assert caught.value.status == status


def test_nobody_there() -> None:
    with pytest.raises(EndpointError, match=r"no answer \(ConnectionRefusedError") as caught:
        ChatClient("http://127.0.0.1:9", "key", "m").ask(ASK)
    assert caught.value.status == 0


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (400, "This model's maximum context length is 8192 tokens.", True),
        (400, "the request exceeds the available context size", True),
        (500, "context window is full", True),
        (413, "prompt is too long", True),
        (400, "unknown parameter: response_format", False),
        (429, "context length", False),
    ],
)
def test_whether_less_would_help(status: int, text: str, expected: bool) -> None:
    assert EndpointError(status, text).too_long is expected
