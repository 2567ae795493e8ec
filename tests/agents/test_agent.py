"""Reading the output of any agent, which may be cut off, reordered, or lie."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.agents.agent import (
    MOST_MISSING,
    MOST_REFUSED,
    BeadReport,
    OutputLineReader,
    ReportedCalls,
)
from gitlab_nightshift.agents.claude_code import ClaudeStreamReader
from gitlab_nightshift.agents.codex import CodexStreamReader
from gitlab_nightshift.agents.plain_model import ModelStreamReader
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.usage import MOST_CALLS, UNKNOWN_USAGE, ToolCall, Usage
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd

DATA = Path(__file__).parents[1] / "data"
ENDED = ProgramEnd(EndReason.EXITED, 0, 1.0)


def call(call_id: Any, command: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
    return {"type": "assistant", "message": {"id": "m", "content": [block]}}


def result(call_id: Any, output: Any, *, failed: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": failed}
    return {"type": "user", "message": {"content": [block]}}


def read_claude(*events: Any) -> tuple[tuple[ToolCall, ...] | None, tuple[str, ...]]:
    reader = ClaudeStreamReader(60)
    for event in events:
        reader.read_line(json.dumps(event).encode())
    report = reader.build_report(ENDED, b"")
    return report.calls, report.refused


def test_calls_in_the_output_of_the_real_clis() -> None:
    claude, codex = ClaudeStreamReader(60), CodexStreamReader(60)
    for reader, file in ((claude, "claude/command_fails"), (codex, "codex/success")):
        for line in (DATA / f"{file}.jsonl").read_bytes().splitlines():
            reader.read_line(line)
    calls = claude.build_report(ENDED, b"").calls or ()
    assert [(each.tool, each.reported) for each in calls] == [
        ("Bash", "failed"),
        ("StructuredOutput", "ok"),
    ]
    calls = codex.build_report(ENDED, b"").calls or ()
    commands = {(each.subject, each.reported) for each in calls}
    assert commands >= {("make test", "exit status 0"), ("false", "exit status 1")}


# --- how a bead ended ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Agent:
    """A reader, the output of a successful bead, and its lines for a failing and an answering
    endpoint."""

    make_reader: Callable[[], OutputLineReader]
    success: tuple[bytes, ...]
    usage: Usage
    retry: bytes = b""
    answer: bytes = b""

    def read(self, lines: Iterable[bytes], ended: ProgramEnd, stderr: bytes = b"") -> BeadReport:
        reader = self.make_reader()
        for line in lines:
            reader.read_line(line)
        return reader.build_report(ended, stderr)


def read_sample(name: str) -> tuple[bytes, ...]:
    return tuple((DATA / name).read_bytes().splitlines())


AGENTS = {
    "claude_code": Agent(
        lambda: ClaudeStreamReader(600),
        read_sample("claude/success.jsonl"),
        Usage(0.2315, 100700),
        b'{"type": "system", "subtype": "api_retry", "error_status": 500}',
        b'{"type": "assistant", "message": {"content": []}}',
    ),
    "codex": Agent(
        lambda: CodexStreamReader(600),
        read_sample("codex/success.jsonl"),
        Usage(None, 4900),
        b'{"type": "error", "message": "Reconnecting... 1/3 (unexpected status 529 <x>: busy)"}',
        b'{"type": "item.completed", "item": {"type": "agent_message", "text": "x"}}',
    ),
    "model": Agent(ModelStreamReader, (b'{"type": "result", "ok": true}',), UNKNOWN_USAGE),
}
STOPS = {
    EndReason.IDLE: BeadStatus.IDLE,
    EndReason.TIMEOUT: BeadStatus.TIMEOUT,
    EndReason.OUTPUT_LIMIT: BeadStatus.OUTPUT_LIMIT,
}


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
@pytest.mark.parametrize("end", STOPS)
def test_a_forced_end_determines_the_status(agent: Agent, end: EndReason) -> None:
    """The usage that the agent has reported until then still counts."""
    report = agent.read(agent.success, ProgramEnd(end, -2, 1.0))
    assert (report.status, report.structured) == (STOPS[end], None)
    assert report.usage.tokens == agent.usage.tokens
    assert report.usage.cost_usd == pytest.approx(agent.usage.cost_usd)


NO_RESULT, CRASHED = BeadStatus.BAD_OUTPUT, BeadStatus.CRASHED


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
@pytest.mark.parametrize(
    ("lines", "exit_status", "status", "error"),
    [
        ([], 0, NO_RESULT, "the agent printed no result (exit status 0) last words"),
        ([b"Hello"], 3, NO_RESULT, "the agent printed no result (exit status 3) last words"),
        ([], 3, CRASHED, "the agent ended with exit status 3 last words"),
        (
            [b'{"type": "x"}'],
            -9,
            CRASHED,
            "the agent ended with SIGKILL (perhaps memory ran out) last words",
        ),
    ],
)
def test_without_a_result_the_exit_status_explains_the_end(
    agent: Agent, lines: list[bytes], exit_status: int, status: BeadStatus, error: str
) -> None:
    ended = ProgramEnd(EndReason.EXITED, exit_status, 1.0)
    report = agent.read(lines, ended, b"first\nlast words\n")
    assert (report.status, report.error) == (status, error)


@pytest.mark.parametrize("name", ["claude_code", "codex"])
@pytest.mark.parametrize("end", [EndReason.IDLE, EndReason.TIMEOUT])
def test_the_endpoint_is_blamed_for_silence_while_it_fails(name: str, end: EndReason) -> None:
    agent, ended = AGENTS[name], ProgramEnd(end, -2, 1.0)
    assert agent.read([agent.retry], ended).status is BeadStatus.UNAVAILABLE
    assert agent.read([agent.retry, agent.answer], ended).status is STOPS[end]


# --- the calls ----------------------------------------------------------------------------------


def test_results_that_come_early_twice_or_never() -> None:
    events = [
        result("a", "done"),
        call("a", "make test"),
        result("a", "no", failed=True),
        call("b", "make lint"),
        call("b", "make all"),
        result("gone", "x"),
    ]
    assert read_claude(*events)[0] == (
        ToolCall("Bash", "make test", "ok", "a"),
        ToolCall("Bash", "make lint", "", "b"),
    )


def test_refused_commands_are_named() -> None:
    events = [
        result("a", "nightshift: not allowed: curl https://x; allowed: git", failed=True),
        result("d", "the key was not found in the table"),
    ]
    assert read_claude(*events)[1] == ("curl https://x",)
    calls = ReportedCalls()
    for number in range(99):
        calls.finish(str(number), "ok", f"nightshift: not allowed: p{number}; x", failed=True)
    assert len(calls.refused) == MOST_REFUSED


def test_calls_of_any_shape_are_read_and_bounded() -> None:
    events: list[Any] = [
        call(None, ["a", 1]),
        call({"x": 1}, {"y": 2}),
        result([], {"z": 1}),
        {"type": "user", "message": 3},
        {"type": "user", "message": {"content": ["x", {"type": "tool_result"}]}},
        call("c", "x" * 10_000),
    ]
    calls, refused = read_claude(*events)
    assert refused == ()
    assert calls is not None
    assert calls[-1].subject == "x" * 300
    flood = read_claude(*(call(f"c{n}", "ls") for n in range(MOST_CALLS + 50)))[0] or ()
    assert len(flood) == MOST_CALLS


def find_missing(output: object) -> tuple[str, ...]:
    calls = ReportedCalls()
    calls.finish("a", "failed", output, failed=True)
    return tuple(calls.missing)


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("Exit code 127\n/bin/bash: line 1: python3: command not found", ("python3",)),
        (
            "sh: 1: python3: not found\nsh: 2: g++: not found\r\nsh: 3: python3: not found",
            ("python3", "g++"),
        ),
        ("zsh: command not found: sbt", ("sbt",)),
        ("bash: sbt: command not found", ("sbt",)),
        ([{"type": "text", "text": "bash: sbt: command not found"}], ("sbt",)),
        ("x" * 10**6 + "\nbash: sbt: command not found", ("sbt",)),
        ("the page was not found\nconfig: key not found in x\nerror: a b: not found", ()),
        ("curl: (22) The requested URL returned error: 404 not found", ()),
        ([{"type": "text"}], ()),
        (None, ()),
    ],
)
def test_commands_that_a_shell_did_not_find_are_named(
    output: object, names: tuple[str, ...]
) -> None:
    assert find_missing(output) == names


def test_a_flood_of_missing_commands_is_bounded() -> None:
    flood = "".join(f"sh: 1: p{number}: not found\n" for number in range(1000))
    assert len(find_missing(flood)) == MOST_MISSING
