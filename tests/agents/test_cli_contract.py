"""What this program relies on in the agents' CLIs: each flag, setting and output field by its name.

A newer version without one of them fails here, and says which.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from gitlab_nightshift.agents import choose_agent, load_provider
from gitlab_nightshift.agents.agent import BeadTask
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.stages.work.handoff import build_schema
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import answer, bash, say
from tests.support.world import TOOLS

VERDICT = {"passed": True, "error_details": "", "commands_run": []}


def build_args(name: str, folder: Path, url: str = "") -> tuple[list[str], dict[str, str]]:
    """A bead's command line and variables, as a night has them."""
    settings = choose_agent(load_settings({}, None, {"agent": name}), {}).settings
    provider = load_provider(name, settings)
    checkout, handoff = folder / "checkout", folder / "handoff"
    checkout.mkdir(exist_ok=True)
    handoff.mkdir(exist_ok=True)
    task = BeadTask(
        *("verify", "tests", 1, settings.models.verify, checkout, handoff / "handoff.json"),
        *(build_schema("verify"), ("true",), 1.0, url),
    )
    for file, text in provider.build_files(task).items():
        (handoff / file).write_text(text)
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(folder / "home"), "TMPDIR": str(folder)}
    return provider.build_bead_args(task, path), {
        **env,
        **provider.build_settings_env(),
        **provider.build_access_env(url, "placeholder"),
    }


@cache
def read_help(*command: str) -> str:
    with TemporaryDirectory() as home:  # codex makes its own folder there
        env = {"PATH": os.environ["PATH"], "HOME": home}
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    return done.stdout


def list_flags(name: str) -> list[str]:
    """The flags of a bead's command line, without the values of ``-c``."""
    with TemporaryDirectory() as folder:
        args, _ = build_args(name, Path(folder))
    return sorted({word for word in args[1:] if re.fullmatch(r"--?[a-zA-Z][\w-]*", word)})


@pytest.mark.parametrize("flag", list_flags("claude_code"))
def test_claude_code_has_the_flag(flag: str) -> None:
    assert re.search(rf"(?<![\w-]){flag}(?![\w-])", read_help(str(TOOLS / "claude"), "--help"))


@pytest.mark.parametrize("flag", list_flags("codex"))
def test_codex_has_the_flag(flag: str) -> None:
    assert re.search(
        rf"(?<![\w-]){flag}(?![\w-])", read_help(str(TOOLS / "codex"), "exec", "--help")
    )


def play(name: str, folder: Path, script: Any, *more: str) -> list[dict[str, Any]]:
    """The events of a whole bead."""
    with ModelEndpoint(script) as endpoint:
        args, env = build_args(name, folder, endpoint.url)
        (folder / "home").mkdir()
        message = {"role": "user", "content": [{"type": "text", "text": "# Task: check"}]}
        stdin = {"claude_code": json.dumps({"type": "user", "message": message}) + "\n"}
        done = subprocess.run(
            [*args[:-1], *more, args[-1]] if more else args,
            input=stdin.get(name, "# Task: check").encode(),
            capture_output=True,
            cwd=folder / "checkout",
            env=env,
            timeout=300,
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    assert lines, done.stderr.decode()
    return [json.loads(line) for line in lines]


def list_fields(value: Any, parent: str = "") -> Iterator[str]:
    """Each field by its path, such as ``message.content[].type``."""
    if isinstance(value, list):
        for item in value:
            yield from list_fields(item, f"{parent}[]")
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{parent}.{key}".lstrip(".")
            yield from list_fields(inner, f"{parent}.{key}")


CLAUDE_FIELDS = {
    "result": [
        *("subtype", "is_error", "result", "structured_output", "total_cost_usd", "modelUsage"),
        *(
            "permission_denials",
            "permission_denials[].tool_name",
            "permission_denials[].tool_input",
        ),
    ],
    "assistant": [
        *("message.id", "message.usage", "message.content[].type", "message.content[].id"),
        *("message.content[].name", "message.content[].input"),
    ],
    "user": [
        *("message.content[].type", "message.content[].tool_use_id", "message.content[].content"),
        "message.content[].is_error",
    ],
    "stream_event": ["event.type", "event.message.id", "event.usage", "event.delta.stop_reason"],
}
CODEX_FIELDS = {
    "item.started": ["item.type", "item.id", "item.command"],
    "item.completed": [
        *("item.type", "item.id", "item.command", "item.aggregated_output", "item.exit_code"),
        *("item.status", "item.text"),
    ],
    "turn.completed": ["usage.input_tokens", "usage.output_tokens", "usage.cached_input_tokens"],
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], set[str]]:
    """All fields, by CLI and type of event."""
    claude = [bash("true"), bash("curl http://127.0.0.1:9"), answer(VERDICT)]
    codex = [bash("true"), say(json.dumps(VERDICT))]
    fields: dict[tuple[str, str], set[str]] = {}
    for name, script in (("claude_code", claude), ("codex", codex)):
        for event in play(name, tmp_path_factory.mktemp(name), script):
            fields.setdefault((name, event["type"]), set()).update(list_fields(event))
    return fields


@pytest.mark.parametrize(
    ("name", "kind", "field"),
    [
        (name, kind, field)
        for name, kinds in (("claude_code", CLAUDE_FIELDS), ("codex", CODEX_FIELDS))
        for kind, fields in kinds.items()
        for field in fields
    ],
)
def test_the_cli_prints_the_field(
    printed: dict[tuple[str, str], set[str]], name: str, kind: str, field: str
) -> None:
    assert field in printed.get((name, kind), set())


def test_codex_knows_each_setting(tmp_path: Path) -> None:
    """It fails for a setting that it does not know, and names it."""
    events = play("codex", tmp_path, [say(json.dumps(VERDICT))], "--strict-config")
    assert events[-1]["type"] == "turn.completed"
