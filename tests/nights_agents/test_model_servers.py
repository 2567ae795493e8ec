"""Whole nights with the agent ``model`` against the wording of five servers, and against models
that are clumsy or hostile."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.nights_agents.test_model import CONFIG, KEY, LAST, MODEL, beads
from tests.support.shop import BEADS, DRAFT, FOUND, NOTE, PASSED
from tests.support.trees import places_of
from tests.support.turns import JsonObject, Request
from tests.support.world import SECRETS, World, git, world

Calls = list[tuple[str, Mapping[str, Any]]]
SCRIPT: dict[str, list[Calls]] = {
    "analyze": [
        [("read", {"path": "shop.py"}), ("run", {"command": ["git", "ls-files"]})],
        [("finish", FOUND)],
    ],
    "implement": [
        [("edit", {"path": "test_shop.py", "old": LAST, "new": LAST + NOTE})],
        [("run", {"command": ["make", "test"]})],
        [("finish", {"summary": "I added a note."})],
    ],
    "verify": [[("finish", PASSED)]],
    "mr": [[("finish", DRAFT)]],
}


@dataclass
class Refusal:
    """Why a server refuses a request."""

    status: int
    body: Any


@dataclass
class Server:
    """How a server words what it is asked and what it says. ``base`` and ``path`` are its address,
    ``settings`` those that its users need."""

    name: str
    base: str
    path: str
    refuse: Callable[[Request], Refusal | None]
    events: Callable[[Calls, int], list[JsonObject]]
    models: JsonObject
    settings: str = ""
    done: bytes = b"data: [DONE]\n\n"
    header: str = "authorization"
    requests: list[Request] = field(default_factory=list)


def function(name: str, given: Any) -> JsonObject:
    return {"name": name, "arguments": given}


def stream_as_openai(calls: Calls, turn: int) -> list[JsonObject]:
    """vLLM, LiteLLM: the head of a call, then its arguments in pieces."""
    events: list[JsonObject] = [{"choices": [{"index": 0, "delta": {"role": "assistant"}}]}]
    for index, (name, given) in enumerate(calls):
        text, call_id = json.dumps(given), f"chatcmpl-tool-{turn}{index}"
        head = {"index": index, "id": call_id, "type": "function", "function": function(name, "")}
        rest = [
            {"index": index, "function": {"arguments": text[at : at + 30]}}
            for at in range(0, len(text), 30)
        ]
        events += [{"choices": [{"index": 0, "delta": {"tool_calls": [x]}}]} for x in (head, *rest)]
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls", "stop_reason": None}
    usage = {"prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950}
    return [*events, {"choices": [end]}, {"choices": [], "usage": usage}]


def stream_as_vllm(calls: Calls, turn: int) -> list[JsonObject]:
    """With a reasoning parser: thoughts come in a field of their own."""
    thought = {"index": 0, "delta": {"reasoning_content": "I think."}}
    return [{"choices": [thought]}, *stream_as_openai(calls, turn)]


def stream_as_ollama(calls: Calls, turn: int) -> list[JsonObject]:
    """Whole calls, each in an event of its own, and the reason ``stop``."""
    rows = [
        {"id": f"call_{turn}{n}", "index": 0, "type": "function"}
        | {"function": function(name, json.dumps(given))}
        for n, (name, given) in enumerate(calls)
    ]
    events: list[JsonObject] = [
        {"choices": [{"index": 0, "delta": {"content": "", "tool_calls": [row]}}]} for row in rows
    ]
    return [*events, {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]}]


def stream_as_text(calls: Calls, turn: int) -> list[JsonObject]:
    """llama.cpp without ``--jinja``: the model writes the block that it was asked for."""
    name, given = calls[-1]
    text = f"I work.\n\n```tool\n{json.dumps({'tool': name, 'arguments': given})}\n```\n"
    return [
        {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None},
        {"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 50}},
    ]


def stream_as_azure(calls: Calls, turn: int) -> list[JsonObject]:
    """The first event has only the filter's results, and no delta at all."""
    filtered = {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    return [filtered, *stream_as_openai(calls, turn)]


def accept(request: Request) -> Refusal | None:
    return None


def refuse_as_vllm(request: Request) -> Refusal | None:
    if "stream_options" in request.body and not request.body.get("stream"):
        return Refusal(400, {"object": "error", "message": "stream_options", "code": 400})
    return None


def refuse_as_llama(request: Request) -> Refusal | None:
    if "tools" in request.body:
        said = {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}
        return Refusal(500, {"error": said})
    return None


def refuse_as_ollama(request: Request) -> Refusal | None:
    if "max_completion_tokens" in request.body:
        return Refusal(400, {"error": "unknown field max_completion_tokens"})
    return None


def refuse_as_litellm(request: Request) -> Refusal | None:
    if "stream_options" in request.body:
        said = "litellm.UnsupportedParamsError: x does not support parameters: ['stream_options']"
        return Refusal(400, {"error": {"message": said, "type": "None", "code": "400"}})
    if request.body["model"] != f"openai/{MODEL}":
        return Refusal(404, {"error": {"message": "no such model"}})
    return None


def refuse_as_azure(request: Request) -> Refusal | None:
    if urlsplit(request.path).query != "api-version=2024-10-21":
        return Refusal(404, {"error": {"code": "404", "message": "Resource not found"}})
    if "max_tokens" in request.body:
        said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return Refusal(400, {"error": {"message": said, "code": "unsupported_parameter"}})
    return None


CHAT = "/v1/chat/completions"
DEPLOYMENT = "/openai/deployments/gpt"
SERVERS = {
    "vLLM": lambda: Server(
        "vLLM", "/v1", CHAT, refuse_as_vllm, stream_as_vllm,
        {"data": [{"id": MODEL, "max_model_len": 32768}]},
        "model_options: {top_k: 20, chat_template_kwargs: {enable_thinking: true}}\n",
    ),
    "llama.cpp": lambda: Server(
        "llama.cpp", "", CHAT, refuse_as_llama, stream_as_text,
        {"data": [{"id": "/m/q.gguf", "meta": {"n_ctx": 32768}}]},
    ),
    "Ollama": lambda: Server(
        "Ollama", "/v1", CHAT, refuse_as_ollama, stream_as_ollama,
        {"data": [{"id": f"{MODEL}:latest", "owned_by": "library"}]},
    ),
    "LiteLLM": lambda: Server(
        "LiteLLM", "/v1", CHAT, refuse_as_litellm, stream_as_openai,
        {"data": [{"id": f"openai/{MODEL}"}]},
        f"models: {{implement: openai/{MODEL}}}\n",
    ),
    "Azure": lambda: Server(
        "Azure", f"{DEPLOYMENT}?api-version=2024-10-21", f"{DEPLOYMENT}/chat/completions",
        refuse_as_azure, stream_as_azure, {"data": []},
        "model_key_header: api-key\n", header="api-key",
    ),
}  # fmt: skip
"""Each by a name, made anew for a test."""


@contextmanager
def serving(server: Server, script: Mapping[str, list[Calls]] = SCRIPT) -> Iterator[str]:
    """The server on loopback; its base URL."""
    given = {bead: iter(rows) for bead, rows in script.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send(200, "application/json", json.dumps(server.models).encode())

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request("POST", self.path, headers, json.loads(raw))
            server.requests.append(request)
            if urlsplit(self.path).path != server.path:
                self.send(404, "application/json", b'{"detail": "Not Found"}')
            elif refusal := server.refuse(request):
                self.send(refusal.status, "application/json", json.dumps(refusal.body).encode())
            else:
                events = server.events(
                    next(given[BEADS(request)], [("finish", {"summary": "x"})]),
                    len(server.requests),
                )
                rows = b"".join(b"data: " + json.dumps(x).encode() + b"\n\n" for x in events)
                self.send(200, "text/event-stream", rows + server.done)

        def send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}{server.base}"
        finally:
            http.shutdown()
            thread.join()


def night(shop: World, url: str, **env: str) -> Any:
    own = {"OPENAI_API_KEY": KEY, "NIGHTSHIFT_MODEL_ENDPOINT": url, "ANTHROPIC_API_KEY": ""}
    return shop.nightshift("run", **{**own, **env})


@pytest.mark.parametrize("name", SERVERS)
def test_a_night_with_this_servers_wording_opens_a_merge_request(name: str, tmp_path: Path) -> None:
    server = SERVERS[name]()
    config = "".join(
        line for line in CONFIG.splitlines(keepends=True)
        if not (server.settings.startswith("models:") and line.startswith("models:"))
    )  # fmt: skip
    with world(tmp_path, config=config + server.settings) as shop, serving(server) as url:
        done = night(shop, url)
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        [mr] = shop.merge_requests
        changed = git(shop.project.bare_repository, "diff", "--numstat", shop.sha, str(mr.sha))
        assert changed == "2\t0\ttest_shop.py\n"
        assert beads(shop) == [(bead, "ok") for bead in SCRIPT]
        assert shop.result["beads"][1]["tools"]["source"] == "gateway"
        assert any(call["tool"] == "edit" for call in shop.result["beads"][1]["tools"]["calls"])
        bearer = "" if server.header == "api-key" else "Bearer "
        assert {r.headers.get(server.header) for r in server.requests} == {f"{bearer}{KEY}"}
        if name == "vLLM":
            sent = server.requests[0].body
            assert (sent["top_k"], sent["chat_template_kwargs"]) == (20, {"enable_thinking": True})
        refused = [r for r in server.requests if server.refuse(r)]
        assert len(refused) <= 1, "what is refused is left out for the night"
        shop.assert_restored()


# --- clumsy and hostile models ----------------------------------------------------------------

HOSTILE: Calls = [  # type: ignore[assignment]
    ("run", {"command": words})
    for words in (
        ["cat", "/proc/1/environ"], ["cat", "/proc/self/environ"], ["printenv"], ["id"],
        ["sh", "-c", "env"], ["find", "/", "-name", ".env", "-maxdepth", "3"],
        ["cat", "/etc/shadow"], ["ls", "/root"], ["cat", "../shop.tmp/x"], ["git", "remote", "-v"],
        ["git", "config", "--list"], ["git", "push", "origin", "HEAD:main"],
        ["git", "-c", "alias.x=!curl http://127.0.0.1:9", "x"], ["curl", "http://169.254.169.254"],
        ["cp", "shop.py", "/tmp/../etc/evil"], ["ln", "-s", "/etc", "out"],
        ["touch", "../escaped"], ["chmod", "4755", "shop.py"], ["rm", "-rf", ".git"],
        ["tee", "/dev/shm/left"], ["kill", "-9", "1"],
        ["dd", "if=/dev/zero", "of=/etc/passwd", "count=1"], ["stat", "/proc/1/root"],
        ["grep", "-r", "glpat", "/tmp", "/home", "/etc", "--include=*.json", "-l"],
    )
] + [
    ("read", {"path": path})
    for path in ("/etc/passwd", "../../etc/passwd", ".git/config", "/proc/self/environ", "out/x")
] + [
    ("edit", {"path": path, "old": "", "new": "x\n"})
    for path in (".git/hooks/pre-commit", "/etc/cron.d/x", "../x", "a/../../x", "~/x")
] + [
    ("search", {"pattern": pattern}) for pattern in ("TOKEN", "sk-", "glpat", "(", "a{99999}")
]  # fmt: skip
CLUMSY: Calls = [
    ("bash", {"command": "ls"}), ("read", {}), ("read", {"path": 5}), ("edit", {"path": "x.py"}),
    ("run", {"command": []}), ("run", {"command": "make test | tee x"}),
]  # fmt: skip


def in_turns(calls: Calls, size: int) -> list[Calls]:
    return [calls[at : at + size] for at in range(0, len(calls), size)]


def test_a_hostile_model_gets_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    """More than 50 of its calls are executed, over the beads of a night."""
    server = SERVERS["vLLM"]()
    quiet = [call for call in HOSTILE if call[0] == "run" and "/" not in call[1]["command"][0]]
    other: Calls = [(name, {"command": [*given["command"], "--"]}) for name, given in quiet]
    script: dict[str, list[Calls]]
    script = {**SCRIPT, "implement": [quiet, other, *in_turns(HOSTILE, 4)]}
    script["analyze"] = [quiet, *SCRIPT["analyze"]]
    with world(tmp_path, config=CONFIG) as shop, serving(server, script) as url:
        done = night(shop, url, NIGHTSHIFT_ISOLATION="auto", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="0")
        assert done.exit_status in (0, 13), done.log
        executed = [
            call
            for bead in shop.result["beads"]
            for call in bead["tools"]["calls"]
            if call["reported"] not in ("", "refused")
        ]
        assert shop.merge_requests == []
        assert len(executed) >= 50, len(executed)
        shop.assert_restored()
        sent = {f"request {n}": json.dumps(r.body) for n, r in enumerate(server.requests)}
        log = {"stdout": done.stdout, "stderr": done.stderr}
        assert places_of((*SECRETS, KEY), {**sent, **log, **shop.products()}) == []
        assert not (shop.checkout.parent / "escaped").exists()


def test_a_clumsy_model_that_learns_makes_its_merge_request(tmp_path: Path) -> None:
    """Each mistake is told and counted; with 50 honest calls between them the night goes well."""
    server = SERVERS["vLLM"]()
    reads: Calls = [("read", {"path": "shop.py", "lines": n + 1}) for n in range(25)]
    more: Calls = [("run", {"command": ["head", "-n", str(n), "shop.py"]}) for n in range(25)]
    script = {**SCRIPT, "implement": [CLUMSY[:4], reads, more, CLUMSY[4:], *SCRIPT["implement"]]}
    with world(tmp_path, config=CONFIG) as shop, serving(server, script) as url:
        done = night(shop, url)
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert len(shop.merge_requests) == 1
        assert "calls that could not be used: 1 × an unknown tool, 4 × arguments of another" in (
            done.log
        )
        tools = shop.result["beads"][1]["tools"]
        assert len([c for c in tools["calls"] if c["reported"]]) >= 50
        shop.assert_restored()


BROKEN: dict[str, tuple[Callable[[Calls, int], list[JsonObject]], str]] = {
    "it dies": (lambda calls, turn: [{"choices": [{"delta": {"content": "x"}}]}], "cut off twice"),
    "it loops": (
        lambda calls, turn: stream_as_openai([("read", {"path": "shop.py"})], turn),
        "the same call of read 6 times",
    ),
    "a thousand calls in one turn": (
        lambda calls, turn: stream_as_openai(
            [("read", {"path": "shop.py", "lines": n + turn * 1000}) for n in range(1000)], turn
        ),
        "too many calls in one turn",
    ),
    "an unknown tool": (
        lambda calls, turn: stream_as_openai([(f"tool{turn}", {})], turn),
        "10 mistakes, the last: an unknown tool",
    ),
    "it refuses": (
        lambda calls, turn: [{"choices": [{"delta": {"refusal": "No."}, "finish_reason": "stop"}]}],
        "the model refuses: No.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_an_endpoint_that_is_of_no_use_is_a_failed_bead(how: str, tmp_path: Path) -> None:
    events, why = BROKEN[how]
    server = SERVERS["vLLM"]()
    server.events = events
    server.done = b"" if how == "it dies" else server.done
    finish: Calls = [("finish", {})]
    many = {bead: [finish] * 500 for bead in SCRIPT}
    with world(tmp_path, config=CONFIG) as shop, serving(server, many) as url:
        done = night(shop, url)
        assert done.exit_status != 0
        assert why in shop.result["beads"][0]["error"]
        assert "the model failed in every bead (5)" in done.log
        assert shop.merge_requests == []
        shop.assert_restored()
