"""One free request tells whether the key is taken and the model known; it leads nowhere else."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gitlab_nightshift.gateway.keys import ModelKey
from gitlab_nightshift.gateway.model_probe import ask_for_model
from gitlab_nightshift.gateway.upstream import build_upstream


@contextmanager
def endpoint(
    status: int, location: str = "", body: bytes = b""
) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """An endpoint with one answer; what it was asked, with the key."""
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("X-Api-Key")))
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def ask(url: str) -> tuple[int, str]:
    found = ask_for_model(build_upstream(ModelKey("ANTHROPIC_API_KEY", "sk-1"), url, {}), "m/1")
    return found.status, found.why


def test_the_key_is_sent_and_the_status_comes_back() -> None:
    for status in (200, 401, 404, 500):
        with endpoint(status) as (url, asked):
            assert ask(url) == (status, "")
            assert asked == [("/v1/models/m%2F1", "sk-1")]


def test_the_key_goes_to_no_other_address() -> None:
    with endpoint(200) as (other, asked), endpoint(302, other) as (url, _):
        assert ask(url) == (302, "")
        assert asked == []


def test_an_endpoint_that_is_not_there_is_told() -> None:
    with endpoint(200) as (url, _):
        pass
    status, why = ask(url)
    assert (status, "refused" in why) == (0, True)


LISTS: dict[str, tuple[object, str, int]] = {
    "vLLM": ({"object": "list", "data": [{"id": "m/1", "max_model_len": 8192}]}, "m/1", 8192),
    "llama.cpp": ({"data": [{"id": "/m/q.gguf", "meta": {"n_ctx": 4096}}]}, "qwen", 4096),
    "Ollama": (
        {"data": [{"id": "qwen3:latest", "owned_by": "library"}, {"id": "phi:3b"}]},
        "qwen3",
        0,
    ),
}


@pytest.mark.parametrize("server", LISTS)
def test_a_servers_list_has_the_model_and_its_context(server: str) -> None:
    """A name with slashes has no address of its own at most servers."""
    rows, model, context = LISTS[server]
    with endpoint(200, body=json.dumps(rows).encode()) as (url, asked):
        found = ask_for_model(build_upstream(ModelKey("OPENAI_API_KEY", "sk-1"), url, {}), model)
    assert (found.status, found.context) == (200, context)
    assert [path for path, _ in asked] == ["/v1/models"]


def test_a_model_that_is_not_listed_is_told_with_those_that_are() -> None:
    body = json.dumps({"data": [{"id": "a"}, {"id": "b"}]}).encode()
    with endpoint(200, body=body) as (url, _):
        found = ask_for_model(build_upstream(ModelKey("OPENAI_API_KEY", "sk-1"), url, {}), "m")
    assert (found.status, found.listed) == (404, ("a", "b"))
