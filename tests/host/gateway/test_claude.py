"""The real claude CLI through the gateway: whole beads, and how it takes a refusal."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.records import Usage
from tests.host.gateway.tools import KEY, MODEL, Client, about, client
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import answer, bash, error, read, write

CLAUDE = Path(__file__).parents[2] / "node" / "node_modules" / ".bin" / "claude"
VERDICT = {"type": "object", "properties": {"passed": {"type": "boolean"}}}


def bead(agent: Client, folder: Path, variable: str, **more: str) -> tuple[dict[str, Any], str]:
    """One session of the CLI; its result, and all that it printed."""
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
        **more,
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
        timeout=60,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    printed = (done.stdout + done.stderr).decode()
    return next(row for row in rows if row["type"] == "result"), printed


@pytest.mark.parametrize(
    ("variable", "header"),
    [
        ("ANTHROPIC_API_KEY", "x-api-key"),
        ("ANTHROPIC_AUTH_TOKEN", "authorization"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "authorization"),
    ],
)
def test_a_whole_bead(tmp_path: Path, variable: str, header: str) -> None:
    note = tmp_path / "shop" / "note.txt"
    script = [bash("env"), write(note, "one\n"), read(note), answer({"passed": True})]
    with ModelEndpoint(script) as endpoint, client(endpoint.url, variable=variable) as agent:
        result, printed = bead(agent, tmp_path, variable)
        assert result["structured_output"] == {"passed": True}
        assert note.read_text() == "one\n"
        usage = agent.gateway.close_bead(agent.ticket)
        assert usage == Usage(about(result["total_cost_usd"]), 4 * 1100)
        assert agent.notes == []
    assert endpoint.unscripted == []
    assert KEY in endpoint.messages[0].headers[header]
    assert KEY not in printed
    assert len(endpoint.messages[1].tool_results) == 1
    beta = endpoint.messages[0].headers["anthropic-beta"]
    assert ("oauth-2025-04-20" in beta) == (variable == "CLAUDE_CODE_OAUTH_TOKEN")
    assert "interleaved-thinking" in beta


def ended(script: Any, folder: Path, env: Mapping[str, str], **more: Any) -> dict[str, Any]:
    with ModelEndpoint(script) as endpoint, client(endpoint.url, **more) as agent:
        result, _ = bead(agent, folder, "ANTHROPIC_API_KEY", **env)
        return {
            "error": result["is_error"],
            "status": result.get("api_error_status"),
            "asked": len(endpoint.messages),
            "exhausted": agent.gateway.exhausted(agent.ticket),
            "unusable": agent.gateway.unusable,
        }


def test_the_end_of_the_budget_ends_the_bead_at_once(tmp_path: Path) -> None:
    assert ended([], tmp_path, {}, budget_usd=0.01) == {
        "error": True,
        "status": 400,
        "asked": 0,
        "exhausted": True,
        "unusable": "",
    }


def test_a_refused_key_ends_the_bead_at_once(tmp_path: Path) -> None:
    """Without the gateway the CLI goes on for minutes."""
    assert ended(lambda _: error(401, "authentication_error"), tmp_path, {}) == {
        "error": True,
        "status": 401,
        "asked": 1,
        "exhausted": False,
        "unusable": "the model endpoint refuses the key (HTTP 401)",
    }


def test_another_model_is_refused_at_once(tmp_path: Path) -> None:
    seen = ended([], tmp_path, {}, models=("claude-opus-4-6",))
    assert (seen["error"], seen["status"], seen["asked"]) == (True, 400, 0)


def test_the_cli_speaks_to_a_unix_socket(tmp_path: Path) -> None:
    """So a sandbox without any network needs nothing in between."""
    path = tmp_path / "gateway.sock"
    with (
        ModelEndpoint([answer({"passed": True})]) as endpoint,
        client(endpoint.url, socket=path) as agent,
    ):
        env = {"ANTHROPIC_UNIX_SOCKET": str(path), "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
        result, _ = bead(agent, tmp_path / "home", "ANTHROPIC_API_KEY", **env)
        assert result["structured_output"] == {"passed": True}
        assert agent.gateway.usage(agent.ticket).tokens == 1100
