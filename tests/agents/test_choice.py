"""The agent of a night, and its models."""

import re
from pathlib import Path

import pytest

from gitlab_nightshift.agents import build_provider, choose_agent, load_provider
from gitlab_nightshift.commands.config_show import format_settings
from gitlab_nightshift.registry.agent_registry import AGENTS
from gitlab_nightshift.run_folder import Invocation
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from tests.agents.test_codex import program

CLAUDE, CODEX = {"ANTHROPIC_API_KEY": "sk-1"}, {"OPENAI_API_KEY": "sk-2"}
SOL, LUNA = "gpt-6.1-sol", "gpt-6-luna"
OPUS, SONNET = "claude-opus-4-6", "claude-sonnet-4-6"


def load(text: str = "") -> Settings:
    return load_settings({}, ConfigFile("nightshift.yaml", text))


@pytest.mark.parametrize(
    ("programs", "keys", "agent", "why"),
    [
        ("claude codex", {**CLAUDE, **CODEX}, "claude_code", "auto"),
        ("claude codex", CODEX, "codex", "auto; not claude_code: no model key: set ANTHROPIC"),
        ("codex", {**CLAUDE, **CODEX}, "codex", "auto; not claude_code: no agent CLI: claude is"),
        ("claude", CODEX, "claude_code", "auto; not claude_code: no model key: set ANTHROPIC"),
        ("", {}, "claude_code", "auto; not claude_code: no agent CLI: claude is not on PATH; not"),
    ],
)
def test_auto_takes_the_first_agent_that_can_be_used(
    tmp_path: Path, programs: str, keys: dict[str, str], agent: str, why: str
) -> None:
    for name in programs.split():
        program(tmp_path / name)
    choice = choose_agent(load(), {**keys, "PATH": str(tmp_path)})
    assert choice.settings.agent == agent
    assert choice.why.startswith(why)
    assert str(choice) == f"{agent} ({choice.why})"
    assert build_provider(choice.settings).name == agent


ENDPOINT = "model_endpoint: http://llama:8080\n"


@pytest.mark.parametrize(
    ("text", "programs", "keys", "agent"),
    [
        (f"{ENDPOINT}models: {{implement: qwen}}\n", "", {}, "model"),
        (f"{ENDPOINT}models: {{implement: qwen}}\n", "codex", CODEX, "codex"),
        (ENDPOINT, "", {}, "claude_code"),
        ("models: {implement: qwen}\n", "", CODEX, "claude_code"),
        ("models: {implement: qwen}\n", "", {"OPENAI_BASE_URL": "http://llama"}, "model"),
    ],
)
def test_auto_takes_the_agent_model_last_and_only_with_an_endpoint(
    tmp_path: Path, text: str, programs: str, keys: dict[str, str], agent: str
) -> None:
    for name in programs.split():
        program(tmp_path / name)
    choice = choose_agent(load(text), {**keys, "PATH": str(tmp_path)})
    assert choice.settings.agent == agent
    if agent == "model":
        assert set(vars(choice.settings.models).values()) == {"qwen"}


def test_a_named_agent_is_not_changed() -> None:
    choice = choose_agent(load("agent: codex\n"), {"PATH": "/nowhere", **CLAUDE})
    assert (choice.settings.agent, str(choice)) == ("codex", "codex")


@pytest.mark.parametrize("name", AGENTS)
def test_each_provider_has_the_name_of_its_entry(name: str) -> None:
    assert load_provider(name, load()).name == name


def test_models_that_are_not_set_are_the_agents_defaults() -> None:
    text = "models: {verify: gpt-x}\n"
    settings = load(text).with_agent("codex")
    assert vars(settings.models) == {
        "analyze": SOL,
        "implement": SOL,
        "verify": "gpt-x",
        "mr": LUNA,
    }
    assert settings.find_source("models.analyze") == "default of codex"
    assert settings.find_source("models.verify") == "nightshift.yaml:1"
    claude = settings.with_agent("claude_code")
    assert list(vars(claude.models).values()) == [OPUS, OPUS, "gpt-x", SONNET]
    assert claude.find_source("models.mr") == "default of claude_code"
    assert load(text).find_source("models.mr") == "default", "with_agent changes a copy"


def test_config_show_leaves_out_rarely_set_settings(tmp_path: Path) -> None:
    (tmp_path / "nightshift.yaml").write_text("draft: true\n")
    invocation = Invocation({}, tmp_path, None, {}, colour=False)
    short, full = format_settings(invocation), format_settings(invocation, show_all=True)
    assert re.search(r"^max_diff_lines +100 +default$", short, re.M)
    assert re.search(r"^draft +true +nightshift.yaml:1$", short, re.M)
    assert "branch_prefix" not in short
    assert "branch_prefix" in full
    hidden = len(full.splitlines()) - len(short.splitlines()) + 1
    assert f"{hidden} more settings have their default: --all shows them" in short
    assert "--all" not in full


def test_config_show_shows_the_agent_and_the_sources_of_its_models(tmp_path: Path) -> None:
    program(tmp_path / "bin/codex")
    (tmp_path / "nightshift.yaml").write_text("models: {verify: gpt-x}\n")
    env = {**CODEX, "PATH": str(tmp_path / "bin")}
    *table, last = format_settings(Invocation(env, tmp_path, None, {}, colour=False)).splitlines()
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in table}
    assert rows["agent"].split("  ")[0] == "auto (here codex)"
    assert rows["models.analyze"].split(maxsplit=1) == [SOL, "default of codex"]
    assert rows["models.verify"].split(maxsplit=1) == ["gpt-x", "nightshift.yaml:1"]
    assert last.startswith("a night would end with E_CONFIG: prices: none is known for gpt-x, so")
    bounded = Invocation(env, tmp_path, None, {"max_tokens": "1000"}, colour=False)
    assert "E_CONFIG" not in format_settings(bounded)
