"""``nightshift providers``: every agent of the registry, checked by trying it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift import __version__
from gitlab_nightshift.cli import run
from gitlab_nightshift.commands.provider_table import ProviderRow, format_rows, list_providers
from gitlab_nightshift.registry.agent_registry import AGENTS, list_auto_agents
from gitlab_nightshift.settings.load import load_settings
from tests.repository.tools import repository

KEY = "sk-test-never-shown-00001"


def write_program(folder: Path, name: str, text: str, status: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\nexit {status}\n")
    file.chmod(0o755)


def rows(env: Mapping[str, str], **settings: str) -> dict[str, ProviderRow]:
    return {row.name: row for row in list_providers(load_settings({}, None, settings), env)}


def test_every_agent_has_a_row(tmp_path: Path) -> None:
    providers = rows({"PATH": str(tmp_path)})
    assert list(providers) == list(AGENTS)
    assert [name for name, row in providers.items() if row.auto] == list(list_auto_agents())
    assert not any(row.usable for row in providers.values())
    assert all(row.missing and row.tools and row.answer and row.cost for row in providers.values())
    assert providers["patch"].version == __version__, "a part of this package"
    assert (providers["replay"].network, providers["claude_code"].version) == ("none", "")


def test_an_installed_cli_is_asked_for_its_version(tmp_path: Path) -> None:
    write_program(
        tmp_path, "claude", '[ "$1" = --version ] && echo "9.8.7 (Claude Code)" && echo more'
    )
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ANTHROPIC_AUTH_TOKEN": KEY}
    row = rows(env)["claude_code"]
    assert (row.usable, row.missing, row.key) == (True, "", "ANTHROPIC_AUTH_TOKEN")
    assert (row.executable, row.version) == (str(tmp_path / "claude"), "9.8.7 (Claude Code)")
    assert KEY not in str(row)


@pytest.mark.parametrize(
    ("text", "status", "version"),
    [
        ("echo broken >&2", 1, ""),
        ("printf '\\033[2J1.0'", 0, "\\x1b[2J1.0"),
        ("printf '%0200d' 7", 0, "0" * 80),
        ('echo "<$OPENAI_API_KEY$ANTHROPIC_API_KEY>"', 0, "<>"),
    ],
)
def test_an_odd_answer_of_a_cli(tmp_path: Path, text: str, status: int, version: str) -> None:
    write_program(tmp_path, "codex", text, status)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    assert rows(env)["codex"].version == version


def test_agent_executable_is_only_for_the_chosen_agent(tmp_path: Path) -> None:
    write_program(tmp_path, "my-codex", "echo 1.2.3")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    providers = rows(env, agent="codex", agent_executable=str(tmp_path / "my-codex"))
    assert providers["codex"].version == "1.2.3"
    assert providers["claude_code"].executable == ""


def test_the_command_prints_text_or_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_program(tmp_path / "bin", "claude", "echo 9.8.7")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("NIGHTSHIFT_", "CI"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert run(["providers"], os.environ) == 0
    text = capsys.readouterr().out
    assert "claude_code (auto): usable\n" in text
    assert f"  program  {tmp_path}/bin/claude (9.8.7)\n" in text
    assert "  key      ANTHROPIC_API_KEY [set]\n" in text
    assert "replay: not usable: replay_dir: " in text
    assert run(["providers", "--json"], os.environ) == 0
    printed = capsys.readouterr().out
    listed: list[dict[str, Any]] = json.loads(printed)["providers"]
    assert [row["name"] for row in listed] == list(AGENTS)
    assert KEY not in text + printed


def test_the_row_of_a_part_of_this_package() -> None:
    row = ProviderRow("x", False, True, "", "", "1", "", "none", "none", "none", "none")
    assert format_rows((row,), as_json=False).splitlines()[:3] == [
        "x: usable",
        "  program  part of nightshift",
        "  key      -",
    ]


def test_a_missing_price_is_reported(tmp_path: Path) -> None:
    write_program(tmp_path, "codex", "echo 1")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OPENAI_API_KEY": KEY}
    models = {"models.mr": "mine"}
    row = rows(env, **models)["codex"]
    assert (row.usable, row.missing.partition(" for ")[0]) == (False, "prices: none is known")
    assert rows(env, **models, max_tokens="1000")["codex"].usable


@pytest.mark.parametrize("command", [["providers"], ["config", "show"], ["doctor"]])
def test_an_agent_in_the_checkout_is_neither_found_nor_started(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    """A project could have put it there."""
    shop = tmp_path / "shop"
    repository(shop, {"a.txt": ""})
    write_program(shop / ".venv/bin", "claude", f"touch {tmp_path}/started")
    write_program(tmp_path / "bin", "codex", "echo 2.0")
    path = f"{shop}/.venv/bin:{tmp_path}/bin:{os.environ['PATH']}"
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), KEY)
    monkeypatch.chdir(shop)
    run([*command, "--set", "agent=auto"], {"PATH": path, "HOME": str(tmp_path), **keys})
    shown = capsys.readouterr().out
    assert f"{shop}/.venv" not in shown
    assert "here claude_code" not in shown
    assert not (tmp_path / "started").exists()
