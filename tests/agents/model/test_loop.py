"""The loop with a real checkout and a real endpoint: its tools, its limits, and calls as text."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.agents.model import loop as loops
from gitlab_nightshift.agents.model.answers import MalformedError
from gitlab_nightshift.agents.model.chat_client import ChatClient, EndpointError
from gitlab_nightshift.agents.model.checkout_files import Workspace
from gitlab_nightshift.agents.model.loop import AgentLoop, ContextTooSmallError, LoopLimits
from gitlab_nightshift.agents.model.tools import CommandRules, Toolbox
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.stages.work.handoff import build_schema
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import FOUND, PASSED
from tests.support.turns import Call, Request, Script, Turn, Usage, call, costing, error, say

PATH = "/usr/bin:/bin"
LIMITS = LoopLimits(2000)
SHOP = "def total(prices):\n    return sum(prices)\n"


class Bench:
    """A checkout, and a loop in it whose model follows a script."""

    def __init__(self, folder: Path) -> None:
        self.top, self.handoff = folder / "shop", folder / "handoff"
        self.git = build_isolated_git(folder / "home", PATH)
        self.handoff.mkdir()
        (self.handoff / "analysis.json").write_text('{"selected": 1}')
        (self.top / "src").mkdir(parents=True)
        (self.top / "shop.py").write_text(SHOP)
        (self.top / "src" / "a.py").write_text("a = 1\n")
        (self.top / "logo.png").write_bytes(b"\x89PNG\0")
        (self.top / "out").symlink_to("/etc")
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
            identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
            subprocess.run(["git", *identity, *words], cwd=self.top, check=True)
        self.events: list[dict[str, Any]] = []
        self.requests: list[Request] = []

    def run(
        self,
        script: Script,
        *,
        bead: str = "implement",
        allowed: tuple[str, ...] = (),
        any_command: bool = False,
        limits: LoopLimits = LIMITS,
    ) -> Any:
        rules = CommandRules(allowed, any_command, {"PATH": PATH}, 60.0)
        toolbox = Toolbox(Workspace(self.top, self.git, (self.handoff,)), rules)
        with ModelEndpoint(script) as endpoint:
            chat = ChatClient(endpoint.url, "key", "m")
            loop = AgentLoop(chat, toolbox, limits, build_schema(bead), self.emit)
            try:
                return loop.run("# Task")
            finally:
                self.requests = endpoint.messages

    def emit(self, event: Any) -> None:
        self.events.append(dict(event))

    def results(self, *calls: Call, **options: Any) -> list[str]:
        """The results of the calls of one turn."""
        self.run([Turn(calls=calls), call("finish", summary="x")], **options)
        return self.requests[-1].tool_results

    @property
    def mistakes(self) -> list[str]:
        return [event["kind"] for event in self.events if event["type"] == "mistake"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def run(*words: str) -> Call:
    return Call("run", {"command": list(words)})


# --- tools ------------------------------------------------------------------------------------


def test_reading(bench: Bench) -> None:
    arguments: list[dict[str, object]] = [
        {"path": "shop.py"},
        {"path": str(bench.top / "shop.py"), "first_line": 2, "lines": 1},
        {"path": "."},
        {"path": str(bench.handoff / "analysis.json")},
        {"path": "nothing.py"},
        {"path": "logo.png"},
    ]
    assert bench.results(*(Call("read", each) for each in arguments)) == [
        f"shop.py, lines 1 to 2 of 2:\n{SHOP.strip()}",
        "shop.py, lines 2 to 2 of 2:\n    return sum(prices)",
        ".git/\nlogo.png\nout\nshop.py\nsrc/",
        f'{bench.handoff}/analysis.json, lines 1 to 1 of 1:\n{{"selected": 1}}',
        "nothing.py: there is no such file",
        "logo.png: a binary file of 5 bytes",
    ]
    assert bench.mistakes == []


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", ".git/config", "src/../../x", "a\x00b"])
def test_a_path_outside_is_a_mistake(bench: Bench, path: str) -> None:
    edit = {"path": path, "old": "", "new": "x"}
    results = bench.results(Call("read", {"path": path}), Call("edit", edit))
    assert all(result.startswith("error: ") for result in results)
    assert bench.mistakes == ["a path outside the checkout"] * 2


def test_a_link_is_not_followed(bench: Bench) -> None:
    paths = ("out/passwd", "out", "out/ssl")
    inner, link, folder = bench.results(*(Call("read", {"path": path}) for path in paths))
    not_a_folder = "it cannot be read: a part of the path is a file or a link, not a folder"
    assert inner == folder == not_a_folder
    assert link == "it cannot be read: a part of the path is a symbolic link"


def test_searching(bench: Bench) -> None:
    (bench.top / "new.py").write_text("total = 1\n")
    arguments = [{"pattern": "^def|total ="}, {"pattern": "a", "folder": "src"}, {"pattern": "zzz"}]
    everywhere, below, nothing = bench.results(*(Call("search", each) for each in arguments))
    assert sorted(everywhere.splitlines()) == [
        "new.py:1: total = 1",
        "shop.py:1: def total(prices):",
    ]
    assert (below, nothing) == ("src/a.py:1: a = 1", "nothing found")
    (broken,) = bench.results(Call("search", {"pattern": "("}))
    assert "Unmatched (" in broken


def test_editing(bench: Bench) -> None:
    results = bench.results(
        Call("edit", {"path": "shop.py", "old": "sum(prices)", "new": "float(sum(prices))"}),
        Call("edit", {"path": "docs/new.md", "old": "", "new": "# New\n"}),
        Call("edit", {"path": "shop.py", "old": "nothing", "new": "x"}),
        Call("edit", {"path": "shop.py", "old": "", "new": "x"}),
    )
    assert results == [
        "edited shop.py (+1 -1)",
        "created docs/new.md (+1 -0)",
        "not applied: shop.py: the old text is not there",
        "not applied: (shop.py): an empty SEARCH makes a new file, but this one exists",
    ]
    edited = SHOP.replace("sum(prices)", "float(sum(prices))")
    assert (bench.top / "shop.py").read_text() == edited
    assert (bench.top / "docs/new.md").read_text() == "# New\n"


def test_running(bench: Bench) -> None:
    listed, failed, shell, printed = bench.results(
        run("git", "ls-files"),
        run("cat", "nothing"),
        Call("run", {"command": "ls src"}),
        run("printenv"),
    )
    assert listed.splitlines()[0] == "exit status 0"
    assert "shop.py" in listed
    assert failed == "exit status 1\ncat: nothing: No such file or directory\n"
    assert shell == "exit status 0\na.py\n"
    assert "key" not in printed


NOT_ALLOWED = (["sh", "-c", "id"], ["/bin/cat", "x"], ["./run.sh"], ["no-such-program"])


@pytest.mark.parametrize("words", NOT_ALLOWED)
def test_a_command_that_is_not_allowed_is_a_mistake(bench: Bench, words: list[str]) -> None:
    (result,) = bench.results(run(*words), allowed=("make test",))
    assert result.startswith("error: ")
    assert "Allowed: plain reading tools; make test." in result
    assert bench.mistakes == ["a command that is not allowed"]


def test_commands_run_with_any_command_or_by_their_name(bench: Bench) -> None:
    assert bench.results(run("sh", "-c", "echo $((1+1))"), any_command=True)[0].endswith("\n2\n")
    script = bench.top / "run.sh"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    assert bench.results(run("./run.sh"), allowed=("./run.sh",))[0] == "exit status 0\nran\n"


def test_a_flood_of_output_is_cut(bench: Bench) -> None:
    (bench.top / "big.txt").write_text("x" * 400_000)
    (result,) = bench.results(run("cat", "big.txt"))
    assert len(result) < 17_000
    assert "bytes left out" in result


# --- the loop ---------------------------------------------------------------------------------


def test_the_report_is_checked_against_the_schema(bench: Bench) -> None:
    wrong = {**FOUND, "selected": {"files": [], "description": "x"}}
    script = [call("finish", **wrong), call("finish", **FOUND)]
    assert bench.run(script, bead="analyze") == FOUND
    assert bench.mistakes == ["a report of another shape"]


def test_a_report_in_a_text_is_accepted(bench: Bench) -> None:
    text = f"It is right.\n```JSON\n{json.dumps(PASSED)}\n```"
    assert bench.run([say("Let me see."), say(text)], bead="verify") == PASSED
    assert bench.mistakes == ["no tool call"]


def test_a_sentence_ends_a_bead_that_has_changed_something(bench: Bench) -> None:
    edit = call("edit", path="shop.py", old="sum", new="fsum")
    assert bench.run([say("I will edit it."), edit, say("I edited it.")]) == "I edited it."
    assert bench.run([say("NO CHANGE: it is right")]) == "it is right"


def test_calls_of_one_turn_run_in_their_order(bench: Bench) -> None:
    edits = [
        Call("edit", {"path": "src/a.py", "old": f"= {n}", "new": f"= {n + 1}"}) for n in (1, 2)
    ]
    bench.run([Turn(calls=(*edits, Call("finish", {"summary": "Done."})))])
    assert (bench.top / "src/a.py").read_text() == "a = 3\n"


MANY = tuple(Call("read", {"path": "shop.py", "lines": n + 1}) for n in range(1000))
MISTAKES: dict[str, Turn] = {
    "an unknown tool": call("bash", command="ls"),
    "broken JSON": Turn(calls=(Call("read", "{"),)),  # type: ignore[arg-type]
    "arguments of another shape": call("read", file="shop.py"),
    "too many calls in one turn": Turn(calls=MANY),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_explained_counted_and_forgiven(bench: Bench, kind: str) -> None:
    assert bench.run([MISTAKES[kind], call("finish", summary="x")]) == "x"
    assert bench.mistakes == [kind]
    results = " ".join(bench.requests[-1].tool_results)
    assert "error: " in results or "only the first 25 were run" in results


def test_ten_mistakes_fail_the_bead(bench: Bench) -> None:
    with pytest.raises(MalformedError, match="10 mistakes, the last: an unknown tool"):
        bench.run([call(f"tool{n}") for n in range(99)])
    assert len(bench.requests) == loops.MOST_MISTAKES


def test_a_repeated_call_is_warned_about_and_then_fails(bench: Bench) -> None:
    with pytest.raises(MalformedError, match="the same call of read 6 times"):
        bench.run([call("read", path="shop.py")] * 99)
    results = bench.requests[-1].tool_results
    assert results[2].endswith("(You have made this call 3 times, with the same result.)")


def test_turns_are_bounded_after_one_warning(bench: Bench) -> None:
    with pytest.raises(MalformedError, match="no finish within 100 turns"):
        bench.run(lambda request: call("read", path="shop.py", lines=len(request.messages)))
    assert str(bench.requests[-1].messages).count("Little is left (turns)") == 1


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (LoopLimits(2000, tokens=5000), "tokens"),
        (LoopLimits(2000, usd=0.01, rates=(2.0, 10.0)), "money"),
        (LoopLimits(2000, seconds=0.001), "time"),
    ],
)
def test_the_model_is_warned_when_little_is_left(
    bench: Bench, limits: LoopLimits, limit: str
) -> None:
    reads = [costing(call("read", path="shop.py", lines=n), input_tokens=2000) for n in (1, 2)]
    bench.run([*reads, call("finish", summary="x")], limits=limits)
    assert f"Little is left ({limit})" in str(bench.requests[-1].messages)


def count_answers(request: Request) -> int:
    return sum(message["role"] == "assistant" for message in request.messages)


def test_an_endpoint_without_tools_gets_fenced_blocks(bench: Bench) -> None:
    def script(request: Request) -> Turn:
        if request.tools:
            return error(500, message="tools param requires --jinja flag")
        texts = [
            '```tool\n{"tool": "read", "arguments": {"path": "shop.py"}}\n```',
            "shop.py\n<<<<<<< SEARCH\n    return sum(prices)\n=======\n    return 1\n"
            ">>>>>>> REPLACE",
            '```tool\n{"tool": "finish", "arguments": {"summary": "Done."}}\n```',
        ]
        return say(texts[count_answers(request)])

    assert bench.run(script) == "Done."
    assert "return 1" in (bench.top / "shop.py").read_text()
    messages = bench.requests[-1].messages
    assert [m["role"] for m in messages] == ["system", "user"] + ["assistant", "user"] * 2
    assert messages[3]["content"].startswith("Result:\nshop.py, lines 1 to 2 of 2:")
    assert messages[5]["content"] == "Result:\nedited shop.py (+1 -1)"


def test_old_outputs_are_dropped_first_in_a_small_context(bench: Bench) -> None:
    (bench.top / "big.txt").write_text("word " * 2500)

    def script(request: Request) -> Turn:
        if len(json.dumps(request.messages)) > 30_000:
            return error(400, message="This model's maximum context length is 8192 tokens.")
        turns = count_answers(request)
        if turns == 6:
            return call("finish", summary="x")
        return call("read", path="big.txt", lines=turns + 1)

    assert bench.run(script) == "x"
    outputs = bench.requests[-1].tool_results
    assert "dropped to save room" in outputs[0]
    assert outputs[-1].startswith("big.txt, lines 1 to 1")
    assert [event for event in bench.events if event["type"] == "trimmed"]
    assert max(r.body["max_completion_tokens"] for r in bench.requests[-2:]) <= 2048


def test_a_task_that_does_not_fit_fails_the_bead(bench: Bench) -> None:
    refusal = error(400, message="This model's maximum context length is 300 tokens.")
    with pytest.raises(ContextTooSmallError, match="does not fit into 300 tokens"):
        bench.run([refusal] * 9)


def test_thoughts_are_sent_back_to_the_endpoint(bench: Bench) -> None:
    """OpenRouter and DeepSeek refuse the result of a tool without them."""
    thoughts = {"reasoning_content": "hm", "reasoning_details": [{"type": "x", "text": "hm"}]}
    reads = Turn(calls=(Call("read", {"path": "shop.py"}),), extra=thoughts)
    bench.run([reads, call("finish", summary="x")])
    sent = bench.requests[-1].messages[2]
    assert sent["reasoning_content"] == "hm"
    assert sent["reasoning_details"] == [{"type": "x", "text": "hm"}]


def test_usage_that_an_endpoint_claims_does_not_end_the_loop(bench: Bench) -> None:
    lie = Usage(10**12, 10**12)
    turn = Turn(calls=(Call("read", {"path": "shop.py"}),), usage=lie)
    assert bench.run([turn, call("finish", summary="x")], limits=LoopLimits(2000, tokens=9)) == "x"


def test_an_error_of_the_endpoint_is_quoted(bench: Bench) -> None:
    with pytest.raises(EndpointError, match="HTTP 404: no such model"):
        bench.run([error(404, "not_found_error", "no such model")])
