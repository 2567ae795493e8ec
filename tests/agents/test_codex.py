"""The command line and environment of the codex CLI; whole ones are in ``tests/nights_agents``."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from gitlab_nightshift.agents import codex as module
from gitlab_nightshift.agents.agent import TOOLS, BeadTask
from gitlab_nightshift.agents.codex import Codex, own_sandbox_works
from gitlab_nightshift.agents.codex_schema import restrict_schema
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.stages.work.handoff_schema import build_schema
from tests.support.shop import DRAFT, FOUND, completed
from tests.support.world import TOOLS as NODE_TOOLS

KEY = {"OPENAI_API_KEY": "sk-1"}


def codex(**settings: str) -> Codex:
    return Codex(load_settings({}, None, {"agent": "codex", **settings}))


def task(bead: str) -> BeadTask:
    checkout, handoff = Path("/builds/shop"), Path("/tmp/h/handoff.json")
    url = "http://127.0.0.1:4"
    return BeadTask(bead, "tests", 1, "gpt-1", checkout, handoff, build_schema(bead), (), 1.0, url)


def config(args: list[str]) -> dict[str, Any]:
    """All ``-c`` options as the one TOML document that they are."""
    given = [args[n + 1] for n, word in enumerate(args) if word == "-c"]
    return tomllib.loads("\n".join(given))


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("bead", TOOLS)
def test_nothing_of_anyones_configuration_counts(bead: str) -> None:
    args = codex().build_bead_args(task(bead), "/nowhere")
    assert args[:3] == [str(Path("codex").resolve()), "exec", "--json"]
    for flag in ("--ephemeral", "--ignore-user-config", "--ignore-rules"):
        assert flag in args
    assert args[-1] == "-", "the prompt is read from stdin"
    assert args[args.index("-C") + 1] == "/builds/shop"
    assert args[args.index("-m") + 1] == "gpt-1"
    assert not [word for word in args if "trust" in word or "bypass" in word]


def test_the_way_to_the_model_is_the_gateway() -> None:
    chosen = codex(model_endpoint="https://models.example/v1")
    args = chosen.build_bead_args(task("mr"), "/nowhere")
    found = config(args)
    endpoint = found["model_providers"][found["model_provider"]]
    assert endpoint["base_url"] == "http://127.0.0.1:4/v1"
    assert (endpoint["env_key"], endpoint["wire_api"]) == ("OPENAI_API_KEY", "responses")
    assert chosen.build_access_env("http://127.0.0.1:4", "a-placeholder") == {
        "OPENAI_API_KEY": "a-placeholder"
    }
    assert found["shell_environment_policy"] == {"inherit": "all", "exclude": ["OPENAI_API_KEY"]}
    assert "models.example" not in str((args, chosen.build_settings_env()))


def test_what_would_reach_out_or_run_code_of_the_checkout_is_off() -> None:
    found = config(codex().build_bead_args(task("implement"), "/nowhere"))
    assert found["web_search"] == "disabled"
    assert found["approval_policy"] == "never"
    assert found["project_doc_max_bytes"] == 0
    assert found["allow_login_shell"] is False
    assert not any(found["features"].values())
    assert {"apps", "hooks", "plugins", "multi_agent_v2"} <= set(found["features"])


def test_only_beads_that_hand_off_have_a_schema() -> None:
    for bead in TOOLS:
        args, files = (
            codex().build_bead_args(task(bead), "/nowhere"),
            codex().build_files(task(bead)),
        )
        assert ("--output-schema" in args) is (bead != "implement")
        assert set(files) == (set() if bead == "implement" else {"schema.json"})
        if files:
            assert args[args.index("--output-schema") + 1] == "/tmp/h/schema.json"
            assert json.loads(files["schema.json"]) == restrict_schema(build_schema(bead))


# --- the sandbox ----------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["auto", "namespaces", "uid", "landlock"])
def test_behind_our_wall_its_own_is_off(isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "own_sandbox_works", lambda *_: pytest.fail("not to be tried"))
    args = codex(isolation=isolation).build_bead_args(task("mr"), "/nowhere")
    assert args[args.index("-s") + 1] == "danger-full-access"


@pytest.mark.parametrize(
    ("bead", "works", "mode"),
    [
        ("analyze", True, "read-only"),
        ("implement", True, "workspace-write"),
        ("verify", True, "workspace-write"),
        ("mr", True, "read-only"),
        ("implement", False, "danger-full-access"),
    ],
)
def test_without_our_wall_its_own_is_used_where_it_works(
    bead: str, works: bool, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "own_sandbox_works", lambda *_: works)
    args = codex(isolation="none").build_bead_args(task(bead), "/nowhere")
    assert args[args.index("-s") + 1] == mode
    assert ("--add-dir" in args) is (mode == "workspace-write")


def test_whether_it_works_is_tried(tmp_path: Path) -> None:
    broken = program(tmp_path / "broken")
    broken.write_text("#!/bin/sh\nexit 1\n")
    assert own_sandbox_works(str(program(tmp_path / "works")), "/usr/bin:/bin")
    assert not own_sandbox_works(str(broken), "/usr/bin:/bin")
    assert not own_sandbox_works("/nowhere/codex", "/usr/bin:/bin")


# --- where it is ----------------------------------------------------------------------------------


def test_npm_s_codex_is_the_native_program() -> None:
    """No Node is needed in the sandbox, and the whole installation is readable there."""
    path = f"{NODE_TOOLS}{os.pathsep}/usr/bin"
    found = Path(codex().build_bead_args(task("mr"), path)[0])
    assert found.read_bytes()[:4] == b"\x7fELF"
    assert codex().list_readable_paths(path) == (NODE_TOOLS.parent,)
    assert found.is_relative_to(NODE_TOOLS.parent)


NATIVE = f"vendor/{os.uname().machine}-unknown-linux-musl/bin/codex"


@pytest.mark.parametrize(
    ("native", "places"),
    [
        (f"lib/node_modules/@openai/codex-linux-x64/{NATIVE}", "lib/node_modules"),
        (
            f"lib/node_modules/@openai/codex/node_modules/@openai/codex-linux-x64/{NATIVE}",
            "lib/node_modules",
        ),
        (f"lib/node_modules/@openai/codex/{NATIVE}", "lib/node_modules"),
    ],
)
def test_every_layout_of_npm(tmp_path: Path, native: str, places: str) -> None:
    script = program(tmp_path / "lib/node_modules/@openai/codex/bin/codex.js")
    program(tmp_path / native)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/codex").symlink_to(script)
    path = str(tmp_path / "bin")
    assert codex().build_bead_args(task("mr"), path)[0] == str(tmp_path / native)
    assert codex().list_readable_paths(path) == (tmp_path / places,)


def test_other_installations(tmp_path: Path) -> None:
    alone = program(tmp_path / "alone/codex")
    assert codex().list_readable_paths(str(alone.parent)) == (alone,)
    packed = program(tmp_path / "packed/bin/codex")
    (tmp_path / "packed/codex-package.json").write_text("{}")
    assert codex(agent_executable=str(packed)).list_readable_paths("/nowhere") == (
        tmp_path / "packed",
    )
    script = program(tmp_path / "node_modules/@openai/codex/bin/codex.js")  # its binary is missing
    chosen = codex(agent_executable=str(script))
    assert chosen.build_bead_args(task("mr"), "/nowhere")[0] == str(script)


@pytest.mark.parametrize(
    ("env", "settings", "text"),
    [
        ({}, {}, "no model key: set OPENAI_API_KEY"),
        ({"ANTHROPIC_API_KEY": "x"}, {}, "no model key: set OPENAI_API_KEY"),
        (KEY, {"agent_executable": "kodex"}, "no agent CLI: kodex is not on PATH"),
    ],
)
def test_what_is_missing_is_told(
    tmp_path: Path, env: dict[str, str], settings: dict[str, str], text: str
) -> None:
    program(tmp_path / "codex")
    with pytest.raises(NightshiftError, match=text) as caught:
        codex(**settings).check({**env, "PATH": str(tmp_path)})
    assert caught.value.code is Code.PROVIDER_UNAVAILABLE
    codex().check({**KEY, "PATH": str(tmp_path)})


# --- the schema -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bead", ["analyze", "verify", "mr"])
def test_the_schema_is_within_the_subset(bead: str) -> None:
    todo, seen = [restrict_schema(build_schema(bead))], 0
    while todo:
        part = todo.pop()
        if part.get("type") == "object":
            seen += 1
            assert part["required"] == list(part["properties"])
            assert part["additionalProperties"] is False
        assert set(part) <= {
            *("type", "enum", "const", "description", "$ref", "$defs", "properties", "items"),
            *("anyOf", "required", "additionalProperties"),
        }
        inner = [*part.get("$defs", {}).values(), *part.get("properties", {}).values()]
        todo += [*inner, *part.get("anyOf", ()), *([part["items"]] if "items" in part else [])]
    assert seen


def test_a_whole_hand_off_fits_the_schema() -> None:
    found = completed(FOUND, value=2, evidence=["shop.py:3: `return sum(prices)`"])
    jsonschema.validate(found, restrict_schema(build_schema("analyze")))
    jsonschema.validate(DRAFT, restrict_schema(build_schema("mr")))
    nothing = {**found, "result": "NO_IMPROVEMENT", "reason": "x", "selected": None}
    jsonschema.validate(nothing, restrict_schema(build_schema("analyze")))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(FOUND, restrict_schema(build_schema("analyze")))
