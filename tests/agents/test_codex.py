"""The codex CLI: command line, environment, and reports of its real output. Whole nights are in
``tests/nights_agents``."""

import json
import os
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.agents import agent
from gitlab_nightshift.agents import codex as module
from gitlab_nightshift.agents.agent import TOOLS, BeadReport, BeadTask
from gitlab_nightshift.agents.codex import (
    Codex,
    CodexStreamReader,
    own_sandbox_works,
    restrict_schema,
)
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.stages.work.handoff import build_schema
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
    """All ``-c`` options, read as one TOML document."""
    options = [value for option, value in pairwise(args) if option == "-c"]
    return tomllib.loads("\n".join(options))


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("bead", TOOLS)
def test_no_configuration_of_user_or_checkout_is_used(bead: str) -> None:
    args = codex().build_bead_args(task(bead), "/nowhere")
    assert args[:3] == [str(Path("codex").resolve()), "exec", "--json"]
    for flag in ("--ephemeral", "--ignore-user-config", "--ignore-rules"):
        assert flag in args
    assert args[-1] == "-", "the prompt is read from stdin"
    assert args[args.index("-C") + 1] == "/builds/shop"
    assert args[args.index("-m") + 1] == "gpt-1"
    assert not [word for word in args if "trust" in word or "bypass" in word]


def test_the_model_is_reached_through_the_gateway() -> None:
    provider = codex(model_endpoint="https://models.example/v1")
    args = provider.build_bead_args(task("mr"), "/nowhere")
    options = config(args)
    endpoint = options["model_providers"][options["model_provider"]]
    assert endpoint["base_url"] == "http://127.0.0.1:4/v1"
    assert (endpoint["env_key"], endpoint["wire_api"]) == ("OPENAI_API_KEY", "responses")
    assert provider.build_access_env("http://127.0.0.1:4", "a-placeholder") == {
        "OPENAI_API_KEY": "a-placeholder"
    }
    assert options["shell_environment_policy"] == {"inherit": "all", "exclude": ["OPENAI_API_KEY"]}
    assert "models.example" not in str((args, provider.build_settings_env()))


def test_features_that_use_the_network_or_run_code_of_the_checkout_are_off() -> None:
    options = config(codex().build_bead_args(task("implement"), "/nowhere"))
    assert options["web_search"] == "disabled"
    assert options["approval_policy"] == "never"
    assert options["project_doc_max_bytes"] == 0
    assert options["allow_login_shell"] is False
    assert not any(options["features"].values())
    assert {"apps", "hooks", "plugins", "multi_agent_v2"} <= set(options["features"])


def test_only_beads_that_hand_off_have_a_schema() -> None:
    for bead in TOOLS:
        args = codex().build_bead_args(task(bead), "/nowhere")
        files = codex().build_files(task(bead))
        assert ("--output-schema" in args) is (bead != "implement")
        assert set(files) == (set() if bead == "implement" else {"schema.json"})
        if files:
            assert args[args.index("--output-schema") + 1] == "/tmp/h/schema.json"
            assert json.loads(files["schema.json"]) == restrict_schema(build_schema(bead))


# --- the sandbox ----------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["auto", "namespaces", "uid", "landlock"])
def test_inside_our_sandbox_the_clis_own_is_off(
    isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_without_our_sandbox_the_clis_own_is_used_if_it_works(
    bead: str, works: bool, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "own_sandbox_works", lambda *_: works)
    args = codex(isolation="none").build_bead_args(task(bead), "/nowhere")
    assert args[args.index("-s") + 1] == mode
    assert ("--add-dir" in args) is (mode == "workspace-write")


def test_own_sandbox_works_by_running_a_command(tmp_path: Path) -> None:
    broken = program(tmp_path / "broken")
    broken.write_text("#!/bin/sh\nexit 1\n")
    assert own_sandbox_works(str(program(tmp_path / "works")), "/usr/bin:/bin")
    assert not own_sandbox_works(str(broken), "/usr/bin:/bin")
    assert not own_sandbox_works("/nowhere/codex", "/usr/bin:/bin")


# --- where it is ----------------------------------------------------------------------------------


def test_the_native_program_of_npms_codex_is_run() -> None:
    """No Node is needed in the sandbox, and the whole installation is readable there."""
    path = f"{NODE_TOOLS}{os.pathsep}/usr/bin"
    native = Path(codex().build_bead_args(task("mr"), path)[0])
    assert native.read_bytes()[:4] == b"\x7fELF"
    assert codex().list_readable_paths(path) == (NODE_TOOLS.parent,)
    assert native.is_relative_to(NODE_TOOLS.parent)


NATIVE = f"vendor/{os.uname().machine}-unknown-linux-musl/bin/codex"


@pytest.mark.parametrize(
    "package", ["codex-linux-x64", "codex/node_modules/@openai/codex-linux-x64", "codex"]
)
def test_every_layout_of_npm(tmp_path: Path, package: str) -> None:
    modules = tmp_path / "lib/node_modules"
    script = program(modules / "@openai/codex/bin/codex.js")
    native = program(modules / "@openai" / package / NATIVE)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/codex").symlink_to(script)
    path = str(tmp_path / "bin")
    assert codex().build_bead_args(task("mr"), path)[0] == str(native)
    assert codex().list_readable_paths(path) == (modules,)


def test_other_installations_expose_only_their_own_files(tmp_path: Path) -> None:
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
def test_check_names_what_is_missing(
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
    schemas, objects = [restrict_schema(build_schema(bead))], 0
    while schemas:
        schema = schemas.pop()
        if schema.get("type") == "object":
            objects += 1
            assert schema["required"] == list(schema["properties"])
            assert schema["additionalProperties"] is False
        assert set(schema) <= {
            *("type", "enum", "const", "description", "$ref", "$defs", "properties", "items"),
            *("anyOf", "required", "additionalProperties"),
        }
        schemas += [*schema.get("$defs", {}).values(), *schema.get("properties", {}).values()]
        schemas += [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    assert objects


def test_a_complete_hand_off_fits_the_schema() -> None:
    analysis = completed(FOUND, value=2, evidence=["shop.py:3: `return sum(prices)`"])
    jsonschema.validate(analysis, restrict_schema(build_schema("analyze")))
    jsonschema.validate(DRAFT, restrict_schema(build_schema("mr")))
    nothing = {**analysis, "result": "NO_IMPROVEMENT", "reason": "x", "selected": None}
    jsonschema.validate(nothing, restrict_schema(build_schema("analyze")))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(FOUND, restrict_schema(build_schema("analyze")))


# --- what it prints -------------------------------------------------------------------------------

SAMPLES = Path(__file__).parents[1] / "data" / "codex"
PASSED = {"passed": True, "error_details": "", "commands_run": ["make test"]}
OK, BROKEN, GONE = BeadStatus.OK, BeadStatus.CRASHED, BeadStatus.UNAVAILABLE
SCRIPTED = "unexpected status {} scripted"
NOT_ONE = "no command could be started: "


@dataclass(frozen=True)
class Expected:
    """The report of a sample; ``error`` is how its text begins."""

    status: BeadStatus
    tokens: int | None
    error: str = ""
    structured: object = None


EXPECTED = {
    "bad_request": Expected(BROKEN, None, "the CLI reports: scripted"),
    "bad_workdir": Expected(BROKEN, 3300, f"{NOT_ONE}Failed to create unified exec process"),
    "no_credit": Expected(GONE, None, "You exceeded your current quota."),
    "no_key": Expected(BROKEN, None, "the CLI reports: Missing environment variable"),
    "no_namespaces": Expected(BROKEN, 3300, f"{NOT_ONE}bwrap: No permissions to create"),
    "overloaded": Expected(GONE, None, SCRIPTED.format("529 <unknown status code>:")),
    "plain_model": Expected(OK, 3800, structured=PASSED),
    "prose": Expected(OK, 1100),
    "rate_limited": Expected(GONE, None, "exceeded retry limit, last status: 429 Too Many"),
    "recovered": Expected(OK, 1100, structured=PASSED),
    "server_error": Expected(GONE, None, "We’re currently experiencing high demand"),
    "some_start": Expected(OK, 3300, structured=PASSED),
    "success": Expected(OK, 4900, structured=PASSED),
    "unauthorized": Expected(GONE, None, SCRIPTED.format("401 Unauthorized:")),
    "unknown_model": Expected(GONE, None, SCRIPTED.format("404 Not Found:")),
    "unknown_to_the_cli": Expected(OK, 1100),
    "unreachable": Expected(GONE, None, "Connection failed: error sending request"),
}


def sample(name: str) -> list[bytes]:
    return (SAMPLES / f"{name}.jsonl").read_bytes().splitlines()


def read(lines: list[bytes], ended: ProgramEnd | None = None, stderr: bytes = b"") -> BeadReport:
    reader = CodexStreamReader(600)
    for line in lines:
        reader.read_line(line)
    return reader.build_report(ended or ProgramEnd(EndReason.EXITED, 0, 1.0), stderr)


def event(kind: str, **more: object) -> bytes:
    return json.dumps({"type": kind, **more}).encode()


def test_every_sample_has_an_expected_report() -> None:
    assert {path.stem for path in SAMPLES.glob("*.jsonl")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_each_real_output_becomes_its_report(name: str) -> None:
    expected = EXPECTED[name]
    failed = any(b'"turn.failed"' in line for line in sample(name))
    report = read(sample(name), ProgramEnd(EndReason.EXITED, int(failed), 1.0))
    assert (report.status, report.structured) == (expected.status, expected.structured)
    # The CLI reports no dollars: the cost is unknown, never zero.
    assert report.usage == Usage(None, expected.tokens)
    assert report.error.startswith(expected.error)
    assert bool(report.error) is (expected.status is not OK)
    assert "127.0.0.1" not in report.error
    assert report.denied == ()


def test_progress_shows_each_action_once_and_without_its_shell() -> None:
    reader = CodexStreamReader(600)
    progress = list(filter(None, map(reader.read_line, sample("success"))))
    assert [each.text for each in progress if each.text] == [
        *("I look first.", "runs make test", "edits /builds/shop/a.txt", "runs false", "reports")
    ]
    assert progress[-1].tokens == 4900


def test_warnings_of_the_cli_are_shown() -> None:
    progress = map(CodexStreamReader(600).read_line, sample("unknown_to_the_cli"))
    assert any(each and each.text.startswith("Model metadata for") for each in progress)


def test_the_output_of_a_successful_command_cannot_say_that_it_did_not_start() -> None:
    command = {"type": "command_execution", "aggregated_output": "bwrap: x", "exit_code": 0}
    lines = [event("item.completed", item=command), *sample("prose")]
    assert read(lines).status is OK


def retry(text: str = "unexpected status 529 <unknown>: busy") -> bytes:
    return event("error", message=f"Reconnecting... 1/3 ({text})")


def test_patience_with_a_failing_endpoint_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(agent, "read_clock", lambda: now[0])
    reader = CodexStreamReader(600)

    def at(seconds: float, text: str = "unexpected status 529 <unknown>: busy") -> str:
        now[0] = 1000.0 + seconds
        progress = reader.read_line(retry(text))
        assert progress is not None
        assert progress.text.endswith("; the CLI tries again")
        return progress.unusable

    assert not at(0)
    assert not at(599)
    reader.read_line(event("item.completed", item={"type": "agent_message", "text": "I go on."}))
    assert not at(600)  # it had answered in between
    assert at(1200) == "the model endpoint answers 529 for 10:00"
    report = reader.build_report(ProgramEnd(EndReason.STOPPED, -2, 1.0), b"")
    assert (report.status, report.error) == (GONE, "the model endpoint answers 529 for 10:00")


def test_a_cli_that_was_killed_after_its_last_turn_is_no_success() -> None:
    report = read(sample("success"), ProgramEnd(EndReason.EXITED, -9, 1.0))
    assert report.status is BROKEN


FAILURE = event("turn.failed", error={"message": "it broke"})


@pytest.mark.parametrize(
    "lines",
    [
        [FAILURE, *sample("success")],
        [*sample("success"), FAILURE],
        [*sample("success"), event("turn.failed")],
        [*sample("success"), event("error", message="it broke")],
        [*sample("success"), event("error")],
        [*sample("success"), event("error", message="Reconnecting... 1/3 (timeout)")],
        [*sample("success"), event("turn.started")],
        [*sample("success"), event("turn.started"), sample("success")[-2]],
        sample("success")[:-1],
    ],
)
def test_an_unfinished_run_is_no_success(lines: list[bytes]) -> None:
    report = read(lines)
    assert (report.status is OK, report.structured) == (False, None)
    assert report.error


def test_a_second_turn_that_is_completed_counts() -> None:
    assert read([*sample("prose"), *sample("success")]).structured == PASSED


def test_before_a_model_is_asked_nothing_was_spent() -> None:
    assert read([], ProgramEnd(EndReason.EXITED, 1, 0.1)).usage == Usage(0.0, 0)
    assert read(sample("success")[:3]).usage == Usage(None, None)


@pytest.mark.parametrize("text", ["[1]", "1", "null", '"x"', "{", "[" * 100_000, "NaN"])
def test_only_an_object_is_a_hand_off(text: str) -> None:
    message = event("item.completed", item={"type": "agent_message", "text": text})
    report = read([message, event("turn.started"), event("turn.completed")])
    assert (report.status, report.structured) == (OK, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(
    ["error", "turn.failed", "turn.completed", "item.started", "item.completed", "turn.started"]
)
ITEMS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["command_execution", "file_change", "agent_message", "error"]),
        **dict.fromkeys(("command", "aggregated_output", "exit_code", "changes", "text"), JSON),
    }
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": KINDS, "item": JSON | ITEMS, "usage": JSON} | {"message": JSON, "error": JSON}
        ),
        max_size=5,
    ),
    st.integers(-15, 3),
)
def test_no_line_breaks_the_reader(events: list[object], exit_status: int) -> None:
    lines = [json.dumps(each).encode() for each in events]
    report = read(lines, ProgramEnd(EndReason.EXITED, exit_status, 1.0))
    assert report.usage.tokens is None or report.usage.tokens >= 0
    assert "\n" not in report.error


@given(st.binary())
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    read(raw.split(b"\n"))
