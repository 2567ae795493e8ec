"""The real claude CLI through the gateway: complete beads, and what it does after a refusal."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from gitlab_nightshift.records.usage import Usage
from tests.gateway.tools import KEY, MODEL, Client, about, client
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import answer, bash, error, read, write

CLAUDE = Path(__file__).parents[1] / "node" / "node_modules" / ".bin" / "claude"
VERDICT = {"type": "object", "properties": {"passed": {"type": "boolean"}}}


def run_bead(
    agent: Client, folder: Path, variable: str, **variables: str
) -> tuple[dict[str, Any], str]:
    """Run the CLI once; returns its result, and all that it printed."""
    checkout = folder / "shop"
    checkout.mkdir(parents=True)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "ANTHROPIC_BASE_URL": agent.ticket.base_url,
        variable: agent.ticket.placeholder,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_RETRY_WATCHDOG": "1",
        **variables,
    }
    command = [
        *(str(CLAUDE), "-p", "--output-format", "stream-json", "--verbose"),
        *("--include-partial-messages", "--model", MODEL, "--tools", "Bash,Read,Edit,Write"),
        *("--permission-mode", "dontAsk", "--allowedTools", "Edit(./**)", "Bash(env)"),
        *("--setting-sources", "user", "--strict-mcp-config", "--no-session-persistence"),
        *("--json-schema", json.dumps(VERDICT), "--max-budget-usd", "5"),
    ]
    done = subprocess.run(
        command,
        cwd=checkout,
        env=env,
        input=b"Prove it.",
        capture_output=True,
        timeout=300,
        check=False,
    )
    events = map(json.loads, done.stdout.splitlines())
    printed = (done.stdout + done.stderr).decode()
    return next(event for event in events if event["type"] == "result"), printed


def test_a_complete_bead(tmp_path: Path) -> None:
    note = tmp_path / "shop" / "note.txt"
    script = [bash("env"), write(note, "one\n"), read(note), answer({"passed": True})]
    with ModelEndpoint(script) as endpoint, client(endpoint.url) as agent:
        result, printed = run_bead(agent, tmp_path, "ANTHROPIC_API_KEY")
        assert result["structured_output"] == {"passed": True}
        assert note.read_text() == "one\n"
        usage = agent.gateway.close_bead(agent.ticket)
        assert usage == Usage(about(result["total_cost_usd"]), 4 * 1100)
        assert agent.notes == []
    assert endpoint.unscripted == []
    assert KEY not in printed
    assert len(endpoint.messages[1].tool_results) == 1
    assert_has_key(endpoint, "x-api-key", oauth=False)


def assert_has_key(endpoint: ModelEndpoint, header: str, *, oauth: bool) -> None:
    """The first request has the real key, and the headers of the CLI for a key of that kind."""
    headers = endpoint.messages[0].headers
    assert KEY in headers[header]
    assert ("oauth-2025-04-20" in headers["anthropic-beta"]) == oauth
    assert "interleaved-thinking" in headers["anthropic-beta"]


def summarize(result: dict[str, Any], endpoint: ModelEndpoint) -> tuple[object, ...]:
    """Whether the result is an error, its HTTP status, and the number of requests forwarded."""
    return result["is_error"], result.get("api_error_status"), len(endpoint.messages)


def test_the_end_of_the_budget_ends_the_bead_at_once(tmp_path: Path) -> None:
    """So does any refusal of the gateway with the same status and type."""
    with ModelEndpoint([]) as endpoint, client(endpoint.url, budget_usd=0.01) as agent:
        result, _ = run_bead(agent, tmp_path, "ANTHROPIC_API_KEY")
        assert summarize(result, endpoint) == (True, 400, 0)
        assert agent.gateway.is_exhausted(agent.ticket)
        assert agent.gateway.unusable == ""


def test_a_refused_key_ends_the_bead_at_once(tmp_path: Path) -> None:
    """Without the gateway the CLI goes on for minutes."""
    variable = "ANTHROPIC_AUTH_TOKEN"
    with (
        ModelEndpoint(lambda _: error(401, "authentication_error")) as endpoint,
        client(endpoint.url, variable=variable) as agent,
    ):
        result, printed = run_bead(agent, tmp_path, variable)
        assert summarize(result, endpoint) == (True, 401, 1)
        assert not agent.gateway.is_exhausted(agent.ticket)
        assert agent.gateway.unusable == "the model endpoint refused the key (HTTP 401)"
    assert KEY not in printed
    assert_has_key(endpoint, "authorization", oauth=False)


def test_the_cli_can_use_a_unix_socket(tmp_path: Path) -> None:
    """So a sandbox without any network needs no relay."""
    path, variable = tmp_path / "gateway.sock", "CLAUDE_CODE_OAUTH_TOKEN"
    with (
        ModelEndpoint([answer({"passed": True})]) as endpoint,
        client(endpoint.url, path=path, variable=variable) as agent,
    ):
        env = {"ANTHROPIC_UNIX_SOCKET": str(path), "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
        result, printed = run_bead(agent, tmp_path / "home", variable, **env)
        assert result["structured_output"] == {"passed": True}
        assert agent.gateway.usage(agent.ticket).tokens == 1100
    assert KEY not in printed
    assert_has_key(endpoint, "authorization", oauth=True)
