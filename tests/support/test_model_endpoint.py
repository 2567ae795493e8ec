"""The scripted model endpoint, over plain HTTP and under the real agent CLI."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_endpoint import ModelEndpoint
from tests.support.trees import wait_for
from tests.support.turns import (
    Call,
    Request,
    Script,
    Turn,
    answer,
    bash,
    by_phrase,
    call,
    costing,
    error,
    read,
    say,
    write,
)

CLAUDE = Path(__file__).parents[1] / "node" / "node_modules" / ".bin" / "claude"
VERDICT = {
    "type": "object",
    "properties": {"passed": {"type": "boolean"}},
    "required": ["passed"],
}


def ask(endpoint: ModelEndpoint, prompt: object = "Hello", **body: object) -> Any:
    request = {"model": "m", "messages": [{"role": "user", "content": prompt}], **body}
    return json.loads(fetch(endpoint, "/v1/messages", request))


def fetch(endpoint: ModelEndpoint, path: str, body: Mapping[str, object] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(endpoint.url + path, data, {"X-Api-Key": "key"})
    with urllib.request.urlopen(request, timeout=60) as response:
        raw: bytes = response.read()
    return raw


def refusal(endpoint: ModelEndpoint) -> tuple[int, dict[str, str], str]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(endpoint)
    with caught.value as refused:
        return refused.code, dict(refused.headers), json.load(refused)["error"]["message"]


def test_turns_are_given_in_order_and_each_has_its_own_id() -> None:
    with ModelEndpoint([say("one"), say("two")]) as endpoint:
        first, second = ask(endpoint), ask(endpoint)
    assert [m["content"][0]["text"] for m in (first, second)] == ["one", "two"]
    assert first["id"] != second["id"]
    assert first["stop_reason"] == "end_turn"
    assert endpoint.unscripted == []


def test_tool_calls_and_usage() -> None:
    turn = Turn("both", (Call("Bash", {"command": "ls"}), Call("Read", {"file_path": "/a"})))
    with ModelEndpoint([costing(turn, input_tokens=7, output_tokens=9)]) as endpoint:
        message = ask(endpoint)
    assert [block["type"] for block in message["content"]] == ["text", "tool_use", "tool_use"]
    assert message["content"][2]["name"] == "Read"
    assert message["content"][1]["id"] != message["content"][2]["id"]
    assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (7, 9)
    assert message["stop_reason"] == "tool_use"


def test_a_stream_carries_the_same_answer() -> None:
    with ModelEndpoint([call("Bash", command="ls")]) as endpoint:
        raw = fetch(endpoint, "/v1/messages", {"stream": True, "messages": []})
    events = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith(b"data: ")]
    assert [event["type"] for event in events] == [
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    assert json.loads(events[2]["delta"]["partial_json"]) == {"command": "ls"}
    assert events[0]["message"]["usage"]["output_tokens"] == 1
    assert events[4]["usage"]["output_tokens"] == 100


def test_chat_completions_carry_the_text_whole_or_in_parts() -> None:
    with ModelEndpoint([say("x" * 90), say("x" * 90)]) as endpoint:
        body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
        whole = json.loads(fetch(endpoint, "/v1/chat/completions", body))
        streamed = fetch(endpoint, "/v1/chat/completions", {**body, "stream": True}).decode()
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": "x" * 90}
    assert whole["usage"]["total_tokens"] == 1100
    *lines, last = [row[6:] for row in streamed.splitlines() if row.startswith("data: ")]
    rows = [json.loads(line) for line in lines]
    assert last == "[DONE]"
    pieces = [row["choices"][0]["delta"].get("content") for row in rows if row["choices"]]
    assert pieces == [None, "x" * 40, "x" * 40, "x" * 10, None]
    assert rows[-1]["usage"] == whole["usage"]
    assert [request.prompt for request in endpoint.messages] == ["Hello", "Hello"]


def test_requests_are_recorded() -> None:
    with ModelEndpoint([say("ok")]) as endpoint:
        content = [
            {"type": "text", "text": "<system-reminder>\nBudget\n</system-reminder>"},
            {"type": "text", "text": "Do it"},
            {"type": "tool_result", "tool_use_id": "t", "content": "done"},
        ]
        system = [{"type": "text", "text": "Be brief"}]
        ask(endpoint, content, system=system, tools=[{"name": "Bash"}])
    (request,) = endpoint.messages
    assert (request.model, request.tools, request.system) == ("m", ["Bash"], "Be brief")
    assert request.prompt == "Do it"
    assert request.tool_results == ["done"]
    assert request.headers["x-api-key"] == "key"


def test_other_paths() -> None:
    with ModelEndpoint([]) as endpoint:
        assert json.loads(fetch(endpoint, "/v1/models?limit=1"))["data"] == []
        counted = json.loads(fetch(endpoint, "/v1/messages/count_tokens", {"messages": []}))
        with pytest.raises(urllib.error.HTTPError) as caught:
            fetch(endpoint, "/v1/other", {})
        caught.value.close()
    assert counted["input_tokens"] > 0
    assert caught.value.code == 404
    assert endpoint.messages == []
    assert [request.method for request in endpoint.requests] == ["GET", "POST", "POST"]


def test_errors_have_a_status_headers_and_a_message() -> None:
    with ModelEndpoint([error(429, "rate_limit_error", "slow down", retry_after="7")]) as endpoint:
        status, headers, message = refusal(endpoint)
    assert (status, headers["retry-after"], message) == (429, "7", "slow down")


def test_a_request_without_a_turn_is_refused_and_kept() -> None:
    with ModelEndpoint([]) as endpoint:
        status, _, message = refusal(endpoint)
    assert status == 400
    assert "no turn 1" in message
    assert len(endpoint.unscripted) == 1


def test_a_fault_of_the_script_is_raised_at_the_end() -> None:
    def broken(request: Request) -> Turn:
        raise LookupError(request.prompt)

    with pytest.raises(LookupError, match="Hello"), ModelEndpoint(broken) as endpoint:
        assert refusal(endpoint)[0] == 400


def test_delay_and_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []
    with ModelEndpoint([Turn("late", delay_s=300), Turn(hang=True)]) as endpoint:
        wait = endpoint.closing.wait

        def pass_delays(timeout: float | None = None) -> bool:
            waited.append(timeout)
            return timeout is None and wait()

        monkeypatch.setattr(endpoint.closing, "wait", pass_delays)
        ask(endpoint)
        body = {"messages": [{"role": "user", "content": "x"}]}
        request = urllib.request.Request(endpoint.url + "/v1/messages", json.dumps(body).encode())
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(request, timeout=0.2)
        wait_for(lambda: None in waited, "the turn that hangs")
    assert waited == [300, 0, None]


def test_each_bead_has_its_own_script() -> None:
    beads: dict[str, Script] = {
        "analyze": [say("a1"), say("a2")],
        "verify": lambda request: say(request.prompt[:3]),
    }
    with ModelEndpoint(beads, by_phrase({"Rank": "analyze", "Prove": "verify"})) as endpoint:
        texts = [ask(endpoint, p)["content"][0]["text"] for p in ("Rank", "Prove it", "Rank")]
        assert "bead 'unknown'" in refusal(endpoint)[2]
    assert texts == ["a1", "Pro", "a2"]


def run_claude(endpoint: ModelEndpoint, home: Path, prompt: str) -> dict[str, Any]:
    """One session of the real CLI in a fresh home and checkout; its result event."""
    checkout = home / "shop"
    checkout.mkdir(parents=True)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "ANTHROPIC_API_KEY": "key-for-tests",
        "ANTHROPIC_BASE_URL": endpoint.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    command = [
        *(str(CLAUDE), "-p", "--output-format", "stream-json", "--verbose"),
        *("--tools", "Bash,Read,Write", "--permission-mode", "dontAsk"),
        *("--allowedTools", f"Edit(/{home}/handoff.json)"),
        *("--setting-sources", "user", "--strict-mcp-config", "--no-session-persistence"),
        *("--json-schema", json.dumps(VERDICT), "--model", "claude-sonnet-4-6"),
    ]
    done = subprocess.run(
        command,
        cwd=checkout,
        env=env,
        input=prompt.encode(),
        capture_output=True,
        check=True,
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    result: dict[str, Any] = next(event for event in events if event["type"] == "result")
    return result


def test_the_real_cli_plays_a_script_and_another_bead_its_own_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "i"
    home.mkdir()
    handoff = home / "handoff.json"
    handoff.write_text("{}")
    beads: dict[str, Script] = {
        "implement": [
            bash("echo hello"),
            read(handoff),
            write(handoff, "new"),
            write(home / "outside", "x"),
            answer({"passed": True}),
        ],
        "verify": [answer({"passed": False})],
    }
    match = by_phrase({"Change": "implement", "Prove": "verify"})
    with ModelEndpoint(beads, bead_of=match) as endpoint, ThreadPoolExecutor() as pool:
        other = pool.submit(run_claude, endpoint, tmp_path / "v", "Prove it.")
        result = run_claude(endpoint, home, "Change it.")
        assert other.result()["structured_output"] == {"passed": False}
    assert result["structured_output"] == {"passed": True}
    assert result["total_cost_usd"] == pytest.approx(5 * (1000 * 3 + 100 * 15) / 1_000_000)
    assert [row["tool_name"] for row in result["permission_denials"]] == ["Write"]
    assert handoff.read_text() == "new"
    assert not (home / "outside").exists()
    messages = [each for each in endpoint.messages if each.prompt == "Change it."]
    first, last = messages[0], messages[-1]
    assert first.tools == ["Bash", "Read", "StructuredOutput", "Write"]
    assert (first.model, first.headers["x-api-key"]) == ("claude-sonnet-4-6", "key-for-tests")
    assert last.tool_results[0].startswith("hello")
    assert {request.path for request in endpoint.requests} <= {"/", "/v1/messages?beta=true"}
    assert endpoint.unscripted == []
