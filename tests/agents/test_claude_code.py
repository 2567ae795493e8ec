"""The claude CLI: command line, environment, and reports of its real output. Whole nights are in
``tests/nights_agents``."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitlab_nightshift.agents import agent, claude_code
from gitlab_nightshift.agents.agent import TOOLS, AgentProgress, BeadReport, BeadTask
from gitlab_nightshift.agents.claude_code import ClaudeCode, ClaudeStreamReader
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
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


@pytest.mark.parametrize(("budget", "text"), [(9.87654, "9.8765"), (0.004, "0.0100")])
def test_the_budget_is_never_printed_as_zero(budget: float, text: str) -> None:
    args = claude().build_bead_args(task("mr", budget=budget), "/nowhere")
    assert args[args.index("--max-budget-usd") + 1] == text


def test_the_executable_is_looked_up_on_the_path_given(tmp_path: Path) -> None:
    program = executable(tmp_path / "bin")
    assert claude().build_bead_args(task("mr"), str(tmp_path / "bin"))[0] == str(program)
    renamed = executable(tmp_path / "renamed", "klaude")
    args = claude(agent_executable=str(renamed)).build_bead_args(task("mr"), "/nowhere")
    assert args[0] == str(renamed)


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


def test_the_model_is_reached_through_the_gateway() -> None:
    """Even if the settings have an endpoint: only the gateway knows it."""
    provider = claude(model_endpoint="https://models.example/v1")
    assert provider.build_access_env("http://127.0.0.1:4", "a-placeholder") == {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:4",
        "ANTHROPIC_API_KEY": "a-placeholder",
    }
    assert "models.example" not in str(provider.build_settings_env())


@pytest.mark.parametrize(
    ("env", "settings", "text"),
    [
        ({}, {}, "no model key: set ANTHROPIC_API_KEY"),
        ({"OPENAI_API_KEY": "x"}, {}, "no model key: set ANTHROPIC_API_KEY"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, {}, "no model key"),
        (KEY, {"agent_executable": "klaude"}, "no agent CLI: klaude is not on PATH"),
    ],
)
def test_check_names_what_is_missing(
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
def test_a_key_or_a_cloud_is_enough(
    tmp_path: Path, env: dict[str, str], settings: dict[str, str]
) -> None:
    executable(tmp_path / "bin")
    claude(**settings).check({**env, "PATH": f"{tmp_path / 'bin'}{os.pathsep}/usr/bin"})


# --- what it prints -------------------------------------------------------------------------------

SAMPLES = Path(__file__).parents[1] / "data" / "claude"
PASSED = {"passed": True, "error_details": ""}


@dataclass(frozen=True)
class Expected:
    """The report of a sample; ``error`` is how its text begins."""

    status: BeadStatus
    cost_usd: float | None
    tokens: int
    error: str = ""
    structured: object = None
    denied: tuple[str, ...] = ()


OK, BROKEN, GONE = BeadStatus.OK, BeadStatus.CRASHED, BeadStatus.UNAVAILABLE
ERROR = "the CLI reports an error (exit status 1): "
EXPECTED = {
    "background_task": Expected(OK, 0.015, 2200, structured=PASSED),
    "bad_request": Expected(BROKEN, 0.0075, 1100, f"{ERROR}API Error: 400 messages: too long"),
    "budget": Expected(BeadStatus.BUDGET, 0.015, 2200, "the budget is spent"),
    "command_fails": Expected(OK, 0.015, 2200, structured=PASSED),
    "denied": Expected(
        OK,
        0.0835,
        28840,
        structured={"passed": False, "error_details": "curl is not allowed"},
        denied=(
            "Bash curl https://example.org",
            "Read /etc/passwd",
            "Write /tmp/outside.txt",
        ),
    ),
    "forbidden": Expected(GONE, 0.0, 0, "Failed to authenticate. API Error: 403"),
    "interrupted": Expected(BROKEN, 0.0075, 1100, ERROR),
    "no_credit": Expected(GONE, 0.0, 0, "Credit balance is too low"),
    "no_key": Expected(GONE, 0.0, 0, "Not logged in"),
    "no_structured_output": Expected(OK, 0.015, 2200),
    "overloaded": Expected(GONE, 0.0, 0, "API Error: Repeated 529 Overloaded errors."),
    "partial_messages": Expected(OK, 0.122, 51080, structured=PASSED),
    "rate_limited": Expected(GONE, 0.0, 0, "API Error: Request rejected (429)"),
    "recovered": Expected(OK, 0.015, 2200, structured=PASSED),
    "refused": Expected(BROKEN, 0.0075, 1100, f"{ERROR}API Error: Claude Code is unable"),
    "schema_broken": Expected(
        BeadStatus.NO_HANDOFF, 0.0075, 2002, "Failed to provide valid structured output after 2"
    ),
    "server_error": Expected(GONE, 0.0, 0, "API Error: 500 Internal server error."),
    "success": Expected(OK, 0.2315, 100700, structured=PASSED),
    "unauthorized": Expected(GONE, 0.0, 0, "the model endpoint refused the key (HTTP 401)"),
    "unauthorized_end": Expected(GONE, 0.0, 0, "Invalid API key"),
    "unknown_model": Expected(GONE, 0.0, 0, "There's an issue with the selected model"),
    "unreachable": Expected(GONE, 0.0, 0, "API Error: Unable to connect to API"),
}


def read(lines: list[bytes], ended: ProgramEnd | None = None, stderr: bytes = b"") -> BeadReport:
    reader = ClaudeStreamReader(600)
    for line in lines:
        reader.read_line(line)
    return reader.build_report(ended or ProgramEnd(EndReason.EXITED, 0, 1.0), stderr)


def sample(name: str) -> list[bytes]:
    return (SAMPLES / f"{name}.jsonl").read_bytes().splitlines()


def test_every_sample_has_an_expected_report() -> None:
    assert {path.stem for path in SAMPLES.glob("*.jsonl")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_each_real_output_becomes_its_report(name: str) -> None:
    expected = EXPECTED[name]
    failed = expected.status is not OK
    report = read(sample(name), ProgramEnd(EndReason.EXITED, int(failed), 1.0))
    assert report.status is expected.status
    assert report.usage.cost_usd == pytest.approx(expected.cost_usd)
    assert report.usage.tokens == expected.tokens
    assert report.error.startswith(expected.error)
    assert bool(report.error) is failed
    assert report.structured == expected.structured
    assert report.denied == expected.denied


# --- while it runs ------------------------------------------------------------------------------


def test_progress_shows_tools_and_tokens() -> None:
    reader = ClaudeStreamReader(600)
    progress = list(filter(None, map(reader.read_line, sample("partial_messages"))))
    tokens = [each.tokens for each in progress if each.tokens is not None]
    assert tokens == sorted(tokens)
    assert tokens[-1] == reader.build_report(ProgramEnd(EndReason.EXITED, 0, 1.0), b"").usage.tokens
    texts = [each.text for each in progress if each.text]
    assert texts == ["I look first.", "Bash git status", "reports"]


def test_the_third_refusal_of_the_key_ends_the_bead() -> None:
    reader = ClaudeStreamReader(600)
    ends = [bool(p and p.unusable) for p in map(reader.read_line, sample("unauthorized"))]
    assert ends[-4:] == [False, False, True, True]


def retry(status: object) -> bytes:
    return json.dumps({"type": "system", "subtype": "api_retry", "error_status": status}).encode()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (529, "the model endpoint answered 529 for 10:00"),
        (None, "the model endpoint did not answer for 10:00"),
        ({"a": 1}, "the model endpoint did not answer for 10:00"),
    ],
)
def test_patience_with_a_failing_endpoint_ends(
    monkeypatch: pytest.MonkeyPatch, status: object, text: str
) -> None:
    now = [1000.0]
    monkeypatch.setattr(agent, "read_clock", lambda: now[0])
    reader = ClaudeStreamReader(600)

    def at(seconds: float) -> AgentProgress:
        now[0] = 1000.0 + seconds
        progress = reader.read_line(retry(status))
        assert progress is not None
        return progress

    assert not at(0).unusable
    assert not at(599).unusable
    reader.read_line(b'{"type": "stream_event", "event": {"type": "message_start", "message": {}}}')
    assert not at(600).unusable  # it had answered in between
    assert not at(1199).unusable
    assert at(1200).unusable == text
    report = reader.build_report(ProgramEnd(EndReason.STOPPED, -2, 1.0), b"")
    assert (report.status, report.error) == (GONE, text)


# --- the end --------------------------------------------------------------------------------------


def test_a_result_with_another_exit_status_is_no_success() -> None:
    assert read(sample("success"), ProgramEnd(EndReason.EXITED, 1, 1.0)).status is BROKEN


def result(**fields: object) -> bytes:
    success = {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn"}
    return json.dumps({**success, "terminal_reason": "completed", **fields}).encode()


SUBTYPES = ("success", "error_max_turns", "error_during_execution", "", None, 1, ["success"])


@pytest.mark.parametrize("subtype", SUBTYPES)
@pytest.mark.parametrize("is_error", [False, True, None, 0, "", "false", []])
@pytest.mark.parametrize("exit_status", [0, 1])
def test_only_one_combination_is_a_success(
    subtype: object, is_error: object, exit_status: int
) -> None:
    line = result(subtype=subtype, is_error=is_error, structured_output=PASSED)
    report = read([line], ProgramEnd(EndReason.EXITED, exit_status, 1.0))
    succeeded = subtype == "success" and is_error is False and exit_status == 0
    assert (report.status is OK) is succeeded
    assert report.structured == (PASSED if succeeded else None)


def test_a_bead_that_ran_out_of_turns_is_reported() -> None:
    report = read([result(subtype="error_max_turns", num_turns=40)])
    assert report.error == "the CLI reports an error (exit status 0): error_max_turns"


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "pause_turn", "new", "", None, [], {}])
def test_a_last_answer_that_was_cut_off_is_no_success(stop: object) -> None:
    """The CLI prints ``null`` for a stream that broke off between two blocks."""
    report = read([result(stop_reason=stop, structured_output=PASSED)])
    assert (report.status, report.structured) == (BROKEN, None)
    assert report.error.startswith("the CLI calls it a success, with an answer that was cut off")


START = {"type": "message_start", "message": {"id": "2"}}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}


def test_a_stream_that_was_lost_after_other_answers_is_no_success() -> None:
    """The result then has the ``stop_reason`` of the answer before."""
    start, stop = (json.dumps({"type": "stream_event", "event": e}).encode() for e in (START, STOP))
    message = {"type": "assistant", "message": {"id": "3", "stop_reason": "end_turn"}}
    repeated, end = json.dumps(message).encode(), result(stop_reason="tool_use")
    assert read([start, stop, start, end]).status is BROKEN
    assert read([start, stop, start, stop, end]).status is OK
    assert read([start, start, repeated, end]).status is OK, "the CLI repeated the request"


@pytest.mark.parametrize("reason", ["max_turns", "aborted_tools", None, 1])
def test_a_run_that_was_ended_early_is_no_success(reason: object) -> None:
    assert read([result(terminal_reason=reason)]).status is BROKEN


def test_older_clis_print_no_stop_reason() -> None:
    assert read([b'{"type": "result", "subtype": "success", "is_error": false}']).status is OK


@pytest.mark.parametrize(
    "other",
    [
        {"subtype": "error_during_execution"},
        {"is_error": True},
        {"structured_output": {"passed": False}},
        {"result": "other"},
    ],
)
def test_two_results_that_disagree_are_no_success(other: dict[str, object]) -> None:
    same = result(structured_output=PASSED)
    lines = [same, result(**{"structured_output": PASSED, **other})]
    for order in (lines, lines[::-1], [*lines, same]):
        assert read(order).status is not OK
    assert read([same, same]).structured == PASSED


def test_tokens_without_a_result_have_an_unknown_price() -> None:
    lines = [line for line in sample("success") if b'"type":"result"' not in line]
    usage = read(lines, ProgramEnd(EndReason.EXITED, -11, 1.0)).usage
    assert usage.cost_usd is None
    assert usage.tokens
    assert read([], ProgramEnd(EndReason.EXITED, -11, 1.0)).usage == Usage(0.0, 0)


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), "1.0", None, 10**400, [], True])
def test_a_cost_that_is_no_price_is_unknown(cost: object) -> None:
    line = json.dumps({"type": "result", "total_cost_usd": cost}).encode()
    known = read([line]).usage.cost_usd
    assert known is None or known == 1.0


def test_an_error_before_the_endpoint_recovered_is_forgotten() -> None:
    failed = {"type": "assistant", "error": "server_error", "message": {"content": []}}
    good = {"type": "assistant", "message": {"content": []}}
    result = {"type": "result", "is_error": True, "subtype": "error_during_execution"}
    lines = [json.dumps(event).encode() for event in (failed, good, result)]
    assert read(lines, ProgramEnd(EndReason.EXITED, 1, 1.0)).status is BROKEN
    assert read([lines[0], lines[2]], ProgramEnd(EndReason.EXITED, 1, 1.0)).status is GONE


WORDS = """type subtype error_status error event message id usage content result is_error
    structured_output permission_denials modelUsage total_cost_usd input_tokens outputTokens
    tool_name tool_input input name text errors api_error_status command""".split()
keys = st.sampled_from(WORDS) | st.text(max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=25,
)
kinds = st.sampled_from(["result", "assistant", "system", "stream_event", "api_retry", "tool_use"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(keys, json_values | kinds, max_size=8), max_size=4), kinds)
def test_no_shape_of_json_breaks_the_reader(events: list[dict[str, Any]], kind: str) -> None:
    changed = {"type": kind, "subtype": "api_retry"}
    lines = [json.dumps({**event, **changed}).encode() for event in events]
    report = read(lines, ProgramEnd(EndReason.EXITED, 0, 1.0))
    assert isinstance(report.status, BeadStatus)
    assert report.usage.tokens is not None and report.usage.tokens >= 0
    assert report.usage.cost_usd is None or report.usage.cost_usd >= 0


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    assert read([raw]).status is BeadStatus.BAD_OUTPUT


def test_millions_of_messages_are_counted_without_being_remembered() -> None:
    tally, many = claude_code.TokenTally(), 50 * claude_code.MOST_RECENT
    for number in range(many):
        tally.count(f"{number}" + "x" * 10_000, 5)
        tally.count(f"{number}" + "x" * 10_000, 7, only_grows=True)
        tally.count(f"{number}" + "x" * 10_000, 1, only_grows=True)
    assert tally.total == 7 * many
    assert len(tally._recent) == claude_code.MOST_RECENT
    assert max(map(len, tally._recent)) == claude_code.LONGEST_NAME
