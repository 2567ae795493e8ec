"""What tool calls show, and what a lying CLI cannot change about it."""

from pathlib import Path

import pytest

from gitlab_nightshift.records.usage import ToolCall, ToolUse
from gitlab_nightshift.stages.work.tool_use import (
    FilesRead,
    count_files,
    merge_calls,
    select_commands,
)

ROOT = Path("/builds/shop")
KNOWN = frozenset({"a.py", "b.py", "docs/c.md"})


def bash(command: str, reported: str = "") -> ToolCall:
    return ToolCall("Bash", command, reported)


def read(path: str, reported: str = "ok") -> ToolCall:
    return ToolCall("Read", path, reported)


def test_the_gateways_calls_count_and_the_cli_adds_only_results() -> None:
    answered = ToolUse(
        "gateway",
        (ToolCall("Bash", "make test", call_id="1"), ToolCall("shell", "make lint", call_id="x")),
        more=3,
    )
    reported = (
        ToolCall("Bash", "make everything", "ok", "invented"),
        ToolCall("command", "make lint", "exit status 0", "item_0"),
        ToolCall("Bash", "make test", "failed", "1"),
    )
    assert merge_calls(answered, reported, trusted=False) == ToolUse(
        "gateway", (bash("make test", "failed"), ToolCall("shell", "make lint", "exit status 0")), 3
    )
    silent = merge_calls(answered, None, trusted=False)
    assert silent is not None
    assert [call.reported for call in silent.calls] == ["", ""]


def test_without_a_gateway_the_clis_report_counts() -> None:
    calls = (ToolCall("Bash", "make test", "ok", "1"),)
    assert merge_calls(None, calls, trusted=False) == ToolUse("cli", (bash("make test", "ok"),))
    assert merge_calls(None, None, trusted=False) is None
    own = merge_calls(ToolUse("gateway"), (read("a.py"),), trusted=True)
    assert own == ToolUse("cli", (read("a.py"),))


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ((), FilesRead(0)),
        ((read("/builds/shop/a.py"), read("a.py"), read("/builds/shop/x/../b.py")), FilesRead(2)),
        ((read("/etc/passwd"), read("../a.py"), read("none.py"), read("")), FilesRead(0)),
        ((read("a.py", "failed"), read("b.py", "")), FilesRead(1)),
        ((read("a.py"), bash("make test")), FilesRead(1, at_least=True)),
        ((bash("sed -n 1,9p a.py && cat 'docs/c.md' | head"),), FilesRead(2, at_least=True)),
        ((bash("rm a.py; cat 'b.py"),), FilesRead(0, at_least=True)),
        ((ToolCall("Agent", "look"), read("a.py")), FilesRead(1, at_least=True)),
    ],
)
def test_files_are_counted_by_what_was_called(
    calls: tuple[ToolCall, ...], expected: FilesRead
) -> None:
    assert count_files([ToolUse("gateway", calls)], ROOT, KNOWN) == expected


def test_files_of_several_beads_count_once() -> None:
    one, two = ToolUse("cli", (read("a.py"),)), ToolUse("cli", (read("a.py"), read("b.py")))
    assert count_files([one, two], ROOT, KNOWN) == FilesRead(2)
    assert count_files([one, None], ROOT, KNOWN) == FilesRead(1, at_least=True)
    assert count_files([None], ROOT, KNOWN) == FilesRead(None)
    assert count_files([], ROOT, KNOWN) == FilesRead(0)
    assert count_files([ToolUse("gateway", (), 9)], ROOT, KNOWN).at_least
    texts = [str(each) for each in (FilesRead(1), FilesRead(5, at_least=True), FilesRead(None))]
    assert texts == ["1 file scanned", "at least 5 files scanned", "files scanned: unknown"]
    assert str(FilesRead(0, at_least=True)) == "files scanned: unknown, read by a shell"


def test_commands_that_only_read_are_left_out() -> None:
    looks = (bash("git diff HEAD"), bash("cat a.py | head -3; ls"), read("a.py"))
    runs = (bash("cat a.py && make test"), bash("python3 -c 'open(1)'"), bash("make 'open"))
    use = select_commands(ToolUse("gateway", (*looks, *runs), 2))
    assert use == ToolUse("gateway", runs, 2)
    assert select_commands(None) is None
