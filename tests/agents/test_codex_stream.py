"""Output of the real CLI, read into status, tokens and hand-off."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.agents import json_stream
from gitlab_nightshift.agents.agent import Report
from gitlab_nightshift.agents.codex_stream import CodexStreamReader
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd

SAMPLES = Path(__file__).parents[1] / "data" / "codex"
PASSED = {"passed": True, "error_details": "", "commands_run": ["make test"]}
OK, BROKEN, GONE = BeadStatus.OK, BeadStatus.CRASHED, BeadStatus.UNAVAILABLE
SCRIPTED = "unexpected status {} scripted"
NOT_ONE = "no command could be started: "
KILLED = "the CLI ended with SIGKILL (perhaps memory ran out) last words"


@dataclass(frozen=True)
class Expected:
    """What a sample has to become; ``error`` is how its text begins."""

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


def read(lines: list[bytes], ended: ProgramEnd | None = None, stderr: bytes = b"") -> Report:
    reader = CodexStreamReader(600)
    for line in lines:
        reader.read_line(line)
    return reader.build_report(ended or ProgramEnd(EndReason.EXITED, 0, 1.0), stderr)


def event(kind: str, **more: object) -> bytes:
    return json.dumps({"type": kind, **more}).encode()


def test_every_sample_is_known() -> None:
    assert {path.stem for path in SAMPLES.glob("*.jsonl")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_samples(name: str) -> None:
    expected = EXPECTED[name]
    failed = any(b'"turn.failed"' in line for line in sample(name))
    report = read(sample(name), ProgramEnd(EndReason.EXITED, int(failed), 1.0))
    assert (report.status, report.structured) == (expected.status, expected.structured)
    # It reports no dollars: unknown, and never zero.
    assert report.usage == Usage(None, expected.tokens)
    assert report.error.startswith(expected.error)
    assert bool(report.error) is (expected.status is not OK)
    assert "127.0.0.1" not in report.error
    assert report.denied == ()


def test_what_is_done_is_told_once_and_without_the_shell_around_it() -> None:
    reader = CodexStreamReader(600)
    told = [progress for line in sample("success") if (progress := reader.read_line(line))]
    assert [progress.text for progress in told if progress.text] == [
        *("I look first.", "runs make test", "edits /builds/shop/a.txt", "runs false", "reports")
    ]
    assert told[-1].tokens == 4900


def test_warnings_of_the_cli_are_told() -> None:
    told = [CodexStreamReader(600).read_line(line) for line in sample("unknown_to_the_cli")]
    assert any(progress and progress.text.startswith("Model metadata for") for progress in told)


def test_the_model_cannot_say_that_nothing_started() -> None:
    """A command that prints such a text and succeeds has run."""
    printed = {"type": "command_execution", "aggregated_output": "bwrap: x", "exit_code": 0}
    lines = [event("item.completed", item=printed), *sample("prose")]
    assert read(lines).status is OK


def retry(text: str = "unexpected status 529 <unknown>: busy") -> bytes:
    return event("error", message=f"Reconnecting... 1/3 ({text})")


def test_patience_with_a_failing_endpoint_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(json_stream, "read_clock", lambda: now[0])
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


@pytest.mark.parametrize("end", [EndReason.IDLE, EndReason.TIMEOUT])
def test_silence_while_the_endpoint_fails_is_the_endpoints(end: EndReason) -> None:
    ended = ProgramEnd(end, -2, 1.0)
    assert read([retry()], ended).status is GONE
    answered = event("item.completed", item={"type": "agent_message", "text": "x"})
    assert read([retry(), answered], ended).status is not GONE


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (EndReason.IDLE, BeadStatus.IDLE),
        (EndReason.TIMEOUT, BeadStatus.TIMEOUT),
        (EndReason.OUTPUT_LIMIT, BeadStatus.OUTPUT_LIMIT),
    ],
)
def test_what_this_program_did_comes_first(end: EndReason, status: BeadStatus) -> None:
    report = read(sample("success"), ProgramEnd(end, -2, 1.0))
    assert (report.status, report.usage) == (status, Usage(None, 4900))
    assert report.structured is None


@pytest.mark.parametrize(
    ("lines", "exit_status", "status", "error"),
    [
        ([], 0, BeadStatus.BAD_OUTPUT, "the CLI printed no result (exit status 0) last words"),
        ([b"Hello"], 3, BeadStatus.BAD_OUTPUT, "the CLI printed no result (exit status 3) last"),
        ([], 3, BROKEN, "the CLI ended with exit status 3 last words"),
        ([b'{"type": "x"}'], -9, BROKEN, KILLED),
        (sample("success"), -9, BROKEN, KILLED),
        (sample("success")[:-1], 0, BeadStatus.BAD_OUTPUT, "the CLI printed no result"),
    ],
)
def test_an_end_without_a_result(
    lines: list[bytes], exit_status: int, status: BeadStatus, error: str
) -> None:
    report = read(lines, ProgramEnd(EndReason.EXITED, exit_status, 1.0), b"first\nlast words\n")
    assert report.status is status
    assert report.error.startswith(error)


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
def test_what_did_not_come_to_its_end_is_no_success(lines: list[bytes]) -> None:
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
    said = event("item.completed", item={"type": "agent_message", "text": text})
    report = read([said, event("turn.started"), event("turn.completed")])
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
def test_any_bytes(raw: bytes) -> None:
    read(raw.split(b"\n"))
