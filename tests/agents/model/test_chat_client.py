"""The client for Chat Completions, on a real socket."""

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gitlab_nightshift.agents.model import chat_client
from gitlab_nightshift.agents.model.chat_client import (
    ChatClient,
    CutOffError,
    EndpointError,
    ModelReply,
)
from tests.gateway.tools import RawEndpoint

ASK = [{"role": "user", "content": "?"}]
STREAM = "text/event-stream"
JSON = "application/json"
DONE = "data: [DONE]\n\n"


@contextmanager
def endpoint(
    bodies: Sequence[str], status: int = 200, kind: str = STREAM, models: object = None
) -> Iterator[str]:
    """The base URL, which has a path, of a server that answers each request with the next body, and
    at the end always with the last one."""
    waiting = list(bodies)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(json.dumps(models), 200 if self.path == "/base/v1/models" else 418)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            expected = ("/base/v1/chat/completions", "Bearer key")
            good = (self.path, self.headers["authorization"]) == expected
            self.answer(waiting.pop(0) if len(waiting) > 1 else waiting[0], status if good else 418)

        def answer(self, body: str, status: int) -> None:
            self.send_response(status)
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


def unstreamed(text: str, reason: str | None = "stop") -> str:
    choice = {"message": {"content": text}, "finish_reason": reason}
    return json.dumps({"choices": [choice]})


def ask(*bodies: str, status: int = 200, kind: str = STREAM) -> ModelReply:
    with endpoint(bodies, status, kind) as url:
        return ChatClient(url, "key", "m").ask(ASK, 100)


def test_a_stream_is_put_together() -> None:
    body = f": hello\n\n{chunk('a')}{chunk()}{chunk('ä')}{chunk(reason='stop')}"
    progress: list[int] = []
    with endpoint([body + 'data: {"choices": [], "usage": {}}\n\n' + DONE]) as url:
        assert ChatClient(url, "key", "m", progress.append).ask(ASK, 100).text == "aä"
    assert progress == [1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    "body",
    [
        chunk("yes") + chunk(reason="stop") + "data:[DONE]",
        chunk("yes", reason="stop") + DONE,
        chunk("y", reason="stop") + chunk("es", reason="stop") + DONE,
        chunk("yes") + chunk(reason="tool_calls") + DONE + DONE,
        chunk("<think>\nhm\n</think>\n\nyes") + chunk(reason="stop") + DONE,
        (chunk("yes") + chunk(reason="stop") + DONE).replace("\n", "\r\n"),
    ],
)
def test_a_stream_with_its_end_is_an_answer(body: str) -> None:
    assert ask(body).text == "yes"


def test_a_server_that_does_not_stream() -> None:
    assert ask(unstreamed("yes"), kind=JSON).text == "yes"


CUT_OFF = {
    "no end at all": (chunk("half"), "the stream ended without its end"),
    "no reason": (chunk("half") + chunk() + DONE, "the endpoint gave no reason for its end"),
    "no mark": (chunk("half") + chunk(reason="stop"), "the stream ended without its end"),
    "text after the reason": (
        chunk("half", "stop") + chunk("more") + DONE,
        "the endpoint gave no reason for its end",
    ),
    "text after the mark": (
        chunk("half", "stop") + DONE + chunk("more", "stop") + DONE,
        "it goes on after its end",
    ),
    "the limit of tokens": (
        chunk("half") + chunk(reason="length") + DONE,
        "it reached the limit of tokens",
    ),
    "first the limit, then an end": (
        chunk("half", "length") + chunk(reason="stop") + DONE,
        "it reached the limit of tokens",
    ),
    "a filter": (
        chunk("half") + chunk(reason="content_filter") + DONE,
        "the endpoint's content filter held the rest back",
    ),
    "a reason that is not known": (
        chunk("half") + chunk(reason="load") + DONE,
        "finish_reason is 'load'",
    ),
    "half a line": (chunk("half") + chunk("more")[:20], "it is no JSON of Chat Completions"),
    "nothing": ("", "the stream ended without its end"),
    "broken JSON": ("data: {\n\n" + DONE, "it is no JSON of Chat Completions"),
    "an error": ('data: {"error": {"message": "x"}}\n\n', "the model endpoint failed"),
}


@pytest.mark.parametrize("name", CUT_OFF)
def test_a_cut_off_stream_is_requested_once_more(name: str) -> None:
    body, why = CUT_OFF[name]
    repeats: list[str] = []
    with endpoint([body, chunk("complete", "stop") + DONE]) as url:
        client = ChatClient(url, "key", "m", on_repeat=repeats.append)
        assert client.ask(ASK, 100).text == "complete"
    assert [why in text for text in repeats] == [True], repeats
    with pytest.raises(CutOffError, match="the answer was cut off twice: ") as caught:
        ask(body)
    assert why in str(caught.value)


@pytest.mark.parametrize("reason", [None, "length", "content_filter"])
def test_a_cut_off_answer_without_a_stream_is_refused(reason: str | None) -> None:
    with pytest.raises(CutOffError):
        ask(unstreamed("half", reason), kind=JSON)


HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
GOOD = (chunk("half") + chunk(reason="stop") + DONE).encode()
BROKEN = {
    "a chunk that is cut": HEAD + f"Transfer-Encoding: chunked\r\n\r\n{len(GOOD) + 9:x}\r\n",
    "chunks without a last one": HEAD + f"Transfer-Encoding: chunked\r\n\r\n{len(GOOD):x}\r\n",
    "a chunk without a size": HEAD + "Transfer-Encoding: chunked\r\n\r\n",
    "a body that is too short": HEAD + f"Content-Length: {len(GOOD) + 1}\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_connection_that_breaks_cuts_the_answer_off(name: str) -> None:
    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(BROKEN[name].encode() + GOOD)

    with RawEndpoint(play) as server:
        with pytest.raises(CutOffError, match="the connection was lost"):
            ChatClient(server.url, "key", "m").ask(ASK, 100)
        assert len(server.requests) == 2


def test_readline_would_take_a_short_body_for_a_complete_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why the client does not use the standard library's ``readline``."""

    def read_body(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
        while line := response.readline(most):
            yield line

    monkeypatch.setattr(chat_client, "_read_body", read_body)
    short = BROKEN["a body that is too short"].encode()
    with RawEndpoint(lambda c, n: c.sendall(short + GOOD)) as url:
        assert ChatClient(url.url, "key", "m").ask(ASK, 100).text == "half"


@pytest.mark.parametrize(
    ("body", "status", "kind", "why"),
    [
        ('{"error": {"message": "no such\\nmodel"}}', 404, JSON, "HTTP 404: no such model"),
        ('{"error": "broken"}', 500, JSON, "HTTP 500: broken"),
        ('{"error": {"message": null}}', 500, JSON, "HTTP 500$"),
        ("<html>", 502, "text/html", "HTTP 502$"),
        (chunk(reason="stop") + DONE, 200, STREAM, "the answer is empty"),
        (unstreamed(" "), 200, JSON, "the answer is empty"),
        ("{}", 200, JSON, "gave no reason for its end"),
        ("[]", 200, JSON, "no JSON of Chat Completions"),
        ('{"choices": [1]}', 200, JSON, "gave no reason for its end"),
        ("x" * 4_000_001, 200, JSON, "too large"),
        ("x" * 4_000_001, 200, STREAM, "too large"),
    ],
)
def test_an_unusable_answer_is_explained(body: str, status: int, kind: str, why: str) -> None:
    with pytest.raises(EndpointError, match=why) as caught:
        ask(body, status=status, kind=kind)
    assert caught.value.status == status


def test_an_endpoint_that_refuses_connections() -> None:
    with pytest.raises(EndpointError, match=r"no answer \(ConnectionRefusedError") as caught:
        ChatClient("http://127.0.0.1:9", "key", "m").ask(ASK, 100)
    assert caught.value.status == 0


TOO_LONG = [
    (400, {"message": "This model's maximum context length is 8192 tokens."}, True, 8192),
    (400, {"message": "'max_tokens' is too large: 9. The context window is 512."}, True, 512),
    (400, {"message": "exceeds the available context size", "n_ctx": 4096}, True, 4096),
    (400, {"message": "exceeds the available context size", "n_ctx": "4096"}, True, 0),
    (500, "context window is full", True, 0),
    (413, "prompt is too long", True, 0),
    (400, "unknown parameter: response_format", False, 0),
    (429, "context length", False, 0),
]


@pytest.mark.parametrize(("status", "error", "expected", "context"), TOO_LONG)
def test_a_request_that_is_too_long_is_recognized(
    status: int, error: object, expected: bool, context: int
) -> None:
    with pytest.raises(EndpointError) as caught:
        ask(json.dumps({"error": error}), status=status, kind=JSON)
    assert (caught.value.too_long, caught.value.context) == (expected, context)


@pytest.mark.parametrize(
    ("models", "tokens"),
    [
        ({"data": [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 4096}]}, 4096),
        ({"data": [{"id": "m"}]}, 0),
        ({"data": []}, 0),
        ({"data": [{"id": "m", "max_model_len": None}]}, 0),
        ([], 0),
        (None, 0),
    ],
)
def test_the_context_is_read_from_the_list_of_models(models: object, tokens: int) -> None:
    with endpoint([""], models=models) as url:
        assert ChatClient(url, "key", "m").read_model().context == tokens


def test_without_a_list_of_models_the_context_is_unknown() -> None:
    assert ChatClient("http://127.0.0.1:9", "key", "m").read_model().context == 0


# --- servers that differ ----------------------------------------------------------------------


def message(**fields: object) -> str:
    """A stream of one message and its end."""
    choice = {"delta": fields, "finish_reason": "stop"}
    return f"data: {json.dumps({'choices': [choice]})}\n\n{DONE}"


TEXTS = {
    "Mistral: content as parts, thoughts among them": message(
        content=[
            {"type": "thinking", "thinking": [{"text": "hm"}]},
            {"type": "text", "text": "yes"},
        ]
    ),
    "vLLM without a reasoning parser": message(content="<think>\nhm\n</think>\n\nyes"),
    "DeepSeek on Ollama: a lone closing mark": message(content="hm, so\n</think>\nyes"),
    "gpt-oss without a parser: harmony's marks": message(
        content="<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final"
        "<|message|>yes<|return|>"
    ),
    "DeepSeek: thoughts beside the text": message(content="yes", reasoning_content="hm"),
    "Gemini: an upper-case reason": message(content="yes").replace('"stop"', '"STOP"'),
    "no space before the mark": message(content="yes").replace("data: [DONE]", "data:[DONE]"),
}


@pytest.mark.parametrize("server", TEXTS)
def test_thoughts_are_not_part_of_the_answer(server: str) -> None:
    assert ask(TEXTS[server]).text == "yes"


FAILURES = {
    "vLLM": ('{"object": "error", "message": "why", "type": "x", "code": 400}', 400),
    "TGI": ('{"detail": "why"}', 422),
    "Mistral": ('{"detail": [{"loc": ["body"], "msg": "why", "type": "x"}]}', 422),
    "Gemini": ('[{"error": {"code": 400, "message": "why"}}]', 400),
    "Ollama": ('{"error": "why"}', 500),
}


@pytest.mark.parametrize("server", FAILURES)
def test_a_failure_is_quoted_in_the_servers_words(server: str) -> None:
    body, status = FAILURES[server]
    with pytest.raises(EndpointError, match=f"HTTP {status}: why"):
        ask(body, status=status, kind=JSON)


IN_STREAMS = {
    "OpenRouter": {"error": {"code": 502, "message": "why"}, "choices": []},
    "vLLM": {"object": "error", "message": "why", "code": 500},
    "SGLang": {"error": {"message": "why"}},
    "TGI": {"error": "why", "error_type": "generation"},
    "Gemini": [{"error": {"message": "why"}}],
}


@pytest.mark.parametrize("server", IN_STREAMS)
def test_a_failure_inside_a_stream_of_status_200_is_no_answer(server: str) -> None:
    with pytest.raises(CutOffError, match="the model endpoint failed: why"):
        ask(f"{chunk('half')}data: {json.dumps(IN_STREAMS[server])}\n\n")


def test_a_refusal_of_the_model_is_quoted() -> None:
    with pytest.raises(EndpointError, match="the model refuses: I cannot help"):
        ask(message(content=None, refusal="I cannot help with that."))


def a_call(**fields: object) -> dict[str, object]:
    function = {"name": "read", "arguments": "{}"}
    return {"index": 0, "type": "function", "function": function, **fields}


def test_thoughts_and_signatures_of_a_call_are_sent_back() -> None:
    """Gemini refuses a result without its signature, OpenRouter and DeepSeek without thoughts."""
    extra = {"google": {"thought_signature": "s"}}
    details = [{"type": "reasoning.text", "index": 0, "text": text} for text in ("h", "m")]
    pieces = [
        message(reasoning="h", reasoning_details=details[:1]).replace('"stop"', "null"),
        message(
            reasoning="m",
            reasoning_details=details[1:],
            tool_calls=[a_call(id="1", extra_content=extra)],
        ),
    ]
    reply = ask(pieces[0].removesuffix(DONE) + pieces[1])
    assert reply.message["reasoning"] == "hm"
    [detail] = reply.message["reasoning_details"]
    assert detail["text"] == "hm"
    assert reply.message["tool_calls"][0]["extra_content"] == extra


@pytest.mark.parametrize("call_id", [None, "", 5])
def test_a_call_without_an_id_gets_one_that_mistral_takes(call_id: object) -> None:
    [call] = ask(message(tool_calls=[a_call(id=call_id)])).calls
    assert re.fullmatch(r"[a-z0-9]{9}", call.call_id)


def test_arguments_as_an_object_are_sent_back_as_text() -> None:
    function = {"name": "read", "arguments": {"path": "a"}}
    reply = ask(message(tool_calls=[a_call(id="1", function=function)]))
    assert reply.calls[0].arguments == {"path": "a"}
    assert reply.message["tool_calls"][0]["function"]["arguments"] == '{"path": "a"}'


def test_arguments_that_are_no_json_are_sent_back_as_an_empty_object() -> None:
    """A chat template that reads them would fail every later request."""
    function = {"name": "read", "arguments": '{"path": '}
    reply = ask(message(tool_calls=[a_call(id="1", function=function)]))
    assert reply.calls[0].arguments is None
    assert reply.message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_flood_of_calls_is_no_answer() -> None:
    calls = [a_call(index=n, id=str(n)) for n in range(2_001)]
    with pytest.raises(EndpointError, match="more than 2000 tool calls"):
        ask(message(tool_calls=calls))
