"""The command line and environment of the claude CLI; whole ones are in ``tests/nights_agents``."""

import json
import os
from pathlib import Path

import pytest

from gitlab_nightshift.agents.agent import TOOLS, BeadTask
from gitlab_nightshift.agents.claude_code import ClaudeCode
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.settings.load import load_settings

KEY = {"ANTHROPIC_API_KEY": "sk-1"}


def claude(**settings: str) -> ClaudeCode:
    return ClaudeCode(load_settings({}, None, settings))


def task(bead: str, commands: tuple[str, ...] = (), budget: float = 1.0) -> BeadTask:
    schema = None if bead == "implement" else {"title": "Verdict"}
    checkout, handoff = Path("/builds/shop"), Path("/tmp/h/handoff.json")
    return BeadTask(bead, "tests", 1, "model-1", checkout, handoff, schema, commands, budget)


def executable(folder: Path, name: str = "claude") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder / name


@pytest.mark.parametrize("bead", TOOLS)
def test_no_flag_that_skips_permissions(bead: str) -> None:
    args = claude().build_bead_args(task(bead), "/nowhere")
    assert not [word for word in args if "dangerously" in word or "skip" in word.lower()]
    assert args[args.index("--permission-mode") + 1] == "dontAsk"
    assert ("--json-schema" in args) is (bead != "implement")
    assert "IS_SANDBOX" not in claude().build_settings_env()


def test_only_implement_may_edit_the_checkout() -> None:
    for bead in TOOLS:
        args = claude().build_bead_args(task(bead), "/nowhere")
        assert ("Edit(./**)" in args) is (bead == "implement")
        assert ("Edit(//tmp/h/handoff.json)" in args) is (bead != "implement")
        assert "Read(//tmp/h/**)" in args


def test_one_word_allows_any_arguments_and_several_words_exactly_themselves() -> None:
    args = claude().build_bead_args(task("verify", ("git", "make test")), "/nowhere")
    assert "Bash(git *)" in args
    assert "Bash(make test)" in args


@pytest.mark.parametrize(("left", "text"), [(9.87654, "9.8765"), (0.004, "0.0100")])
def test_the_budget_is_never_printed_as_zero(left: float, text: str) -> None:
    args = claude().build_bead_args(task("mr", budget=left), "/nowhere")
    assert args[args.index("--max-budget-usd") + 1] == text


def test_the_executable_is_looked_up_on_the_path_given(tmp_path: Path) -> None:
    program = executable(tmp_path / "bin")
    assert claude().build_bead_args(task("mr"), str(tmp_path / "bin"))[0] == str(program)
    own = executable(tmp_path / "own", "klaude")
    chosen = claude(agent_executable=str(own))
    assert chosen.build_bead_args(task("mr"), "/nowhere")[0] == str(own)


def test_a_prompt_is_one_message_whose_shared_part_is_marked_for_the_cache() -> None:
    sent = claude().build_stdin("shared\n", '"rest" ü')
    assert sent.endswith(b"}\n")
    assert sent.count(b"\n") == 1, "one line is one message"
    marked = {"type": "text", "text": "shared\n", "cache_control": {"type": "ephemeral"}}
    content = [marked, {"type": "text", "text": '"rest" ü'}]
    assert json.loads(sent) == {"type": "user", "message": {"role": "user", "content": content}}


def test_the_schema_is_json() -> None:
    args = claude().build_bead_args(task("verify"), "/nowhere")
    assert json.loads(args[args.index("--json-schema") + 1]) == {"title": "Verdict"}


def test_commands_may_take_nearly_as_long_as_silence_may_last() -> None:
    env = claude(idle_timeout="100s").build_settings_env()
    assert env["BASH_DEFAULT_TIMEOUT_MS"] == env["BASH_MAX_TIMEOUT_MS"] == "90000"
    assert "ANTHROPIC_BASE_URL" not in env


def test_the_way_to_the_model_is_the_gateway() -> None:
    """Also where the team has an endpoint of its own: only the gateway knows that."""
    chosen = claude(model_endpoint="https://models.example/v1")
    assert chosen.build_access_env("http://127.0.0.1:4", "a-placeholder") == {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:4",
        "ANTHROPIC_API_KEY": "a-placeholder",
    }
    assert "models.example" not in str(chosen.build_settings_env())


@pytest.mark.parametrize(
    ("env", "settings", "text"),
    [
        ({}, {}, "no model key: set ANTHROPIC_API_KEY"),
        ({"OPENAI_API_KEY": "x"}, {}, "no model key: set ANTHROPIC_API_KEY"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, {}, "no model key"),
        (KEY, {"agent_executable": "klaude"}, "no agent CLI: klaude is not on PATH"),
    ],
)
def test_what_is_missing_is_told(
    tmp_path: Path, env: dict[str, str], settings: dict[str, str], text: str
) -> None:
    executable(tmp_path / "bin")
    with pytest.raises(NightshiftError, match=text) as caught:
        claude(**settings).check({**env, "PATH": str(tmp_path / "bin")})
    assert caught.value.code is Code.PROVIDER_UNAVAILABLE


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        (KEY, {}),
        ({"ANTHROPIC_AUTH_TOKEN": "x"}, {}),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "x"}, {}),
        ({"CLAUDE_CODE_USE_VERTEX": "1"}, {"agent_env": "CLAUDE_CODE_USE_VERTEX"}),
    ],
)
def test_a_key_or_a_cloud_will_do(
    tmp_path: Path, env: dict[str, str], settings: dict[str, str]
) -> None:
    executable(tmp_path / "bin")
    claude(**settings).check({**env, "PATH": f"{tmp_path / 'bin'}{os.pathsep}/usr/bin"})
