"""Every error code through the real command, and what state it leaves behind."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gitlab_nightshift import events
from gitlab_nightshift.host import process as processes
from gitlab_nightshift.work.delegation import task
from tests.support.agent import (
    Play,
    Step,
    append,
    crash,
    hang,
    leave,
    plays,
    raw,
    retry,
    say,
    sh,
    spend,
    write,
)
from tests.support.delegation import DEVELOPMENT, QUICK, delegations, ended
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, GOOD, bill, refused
from tests.support.trees import wait_for
from tests.support.world import git

BREAKING = [write("shop.py", "def total(prices, discount=0):\n    return 0\n")]
DAMAGE: list[Step] = [
    append("shop.py", "x = 1\n"),
    sh("rm -r docs; chmod 0600 run.sh; touch -d 2001-01-01 Makefile; mkdir -p new/x; echo x>new/f"),
    sh("git checkout -q -b other; git commit -qam x; echo evil >> .git/config; rm -f .gitignore"),
]
"""What an agent may do before it fails: files, modes, times, folders, its git."""
ONCE = {"NIGHTSHIFT_MAX_IMPLEMENT_RETRIES": "0"}


def pass_at_once(monkeypatch: pytest.MonkeyPatch, seconds: float, true: Callable[[], bool]) -> None:
    """So many seconds have passed as soon as a function returns true."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (seconds if true() else 0))
    for module in (events, processes):
        monkeypatch.setattr(module, "time", clock)


def failing(play: Play, **bead: Play) -> dict[str, Play]:
    return plays(GOOD, {"implement": play}, bead)


def test_e_config(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        done = desk.ask(workspace={"base_ref": "no-such-ref"})
        done.failed("E_CONFIG", 2, "base_ref: 'no-such-ref' names no commit here")
        assert done.result["rollback_performed"] is False
        assert desk.agent.seen == []
        desk.assert_untouched()


def test_e_policy_deny(tmp_path: Path) -> None:
    with delegations(tmp_path, failing([*DAMAGE, write("package.json", "{}\n")])) as desk:
        done = desk.delegate()
        done.failed("E_POLICY_DENY", 3, "package.json is a dependency manifest or lock file")
        assert done.result["rollback_performed"] is True
        assert (done.result["files_changed"], done.result["git"]["branch"]) == ([], None)
        assert b"package.json" in desk.kept(done, "patch_file")
        desk.assert_untouched()


def test_e_approval_required_before_an_agent_runs(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        desk.env["NIGHTSHIFT_ORCHESTRATOR"] = "somebody-else"
        done = desk.ask()
        done.failed("E_APPROVAL_REQUIRED", 4, "nobody has approved it", "(planner)")
        assert desk.agent.seen == []
        assert [e["gate"] for e in desk.events if e["event"] == "gate_required"] == ["start"]
        desk.assert_untouched()


def test_e_approval_required_for_what_was_changed(tmp_path: Path) -> None:
    play = [append("notes.txt", "one more\n"), append("test_shop.py", "\n# end\n")]
    with delegations(tmp_path, failing(play)) as desk:
        done = desk.delegate()
        done.failed("E_APPROVAL_REQUIRED", 4, "notes.txt is outside of policy.writable_paths")
        assert done.result["rollback_performed"] is True
        assert b"notes.txt" in desk.kept(done, "patch_file")
        assert (Path(done.result["artifacts"]["diff_bundle"]) / "bundle.json").is_file()
        required = [e["gate"] for e in desk.events if e["event"] == "gate_required"]
        assert required == ["start", "write"]
        desk.assert_untouched()


def test_e_provider_unavailable_without_a_key(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        del desk.env["ANTHROPIC_API_KEY"]
        done = desk.ask(provider="claude_code")
        done.failed("E_PROVIDER_UNAVAILABLE", 5, "no model key")
        desk.assert_untouched()


def test_e_provider_unavailable_in_the_middle(tmp_path: Path) -> None:
    """The endpoint refuses the key after the agent has begun to change files."""
    with delegations(tmp_path, failing([*DAMAGE, *[retry(401)] * 3, hang()])) as desk:
        done = desk.delegate()
        done.failed("E_PROVIDER_UNAVAILABLE", 5)
        assert done.result["rollback_performed"] is True
        desk.assert_untouched()


def test_e_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with delegations(tmp_path, failing([*DAMAGE, hang()])) as desk:
        pass_at_once(monkeypatch, 601, lambda: desk.agent.hanging)
        done = desk.ask(execution={"max_runtime_s": 600})
        done.failed("E_TIMEOUT", 6, "deadline")
        assert done.result["diagnostics"]["timeout"] is True
        assert done.result["rollback_performed"] is True
        desk.assert_untouched()


def test_e_timeout_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = tmp_path.resolve() / "agent/began"
    slow = f"import time\nopen({str(began)!r}, 'w').close()\ntime.sleep(600)\n"
    with delegations(tmp_path, failing([write("shop.py", slow)])) as desk:
        pass_at_once(monkeypatch, 601, began.exists)
        done = desk.ask(execution={"test_command_id": "unit", "max_runtime_s": 600})
        done.failed("E_TIMEOUT", 6)
        assert done.result["test_result"] == "failed"
        desk.assert_untouched()


def test_e_timeout_of_a_bead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with delegations(tmp_path, failing([*DAMAGE, hang()])) as desk:
        pass_at_once(monkeypatch, 101, lambda: desk.agent.hanging)
        done = desk.called(desk.payload(), NIGHTSHIFT_BEAD_TIMEOUT="100", **ONCE)
        done.failed("E_TIMEOUT", 6, "Implement failed (timeout)")
        desk.assert_untouched()


def test_e_budget(tmp_path: Path) -> None:
    script = failing([*DAMAGE, spend(0.5)], verify=[spend(0.9)])
    with ModelEndpoint(bill, BEADS) as endpoint, delegations(tmp_path, script) as desk:
        desk.env |= {"NIGHTSHIFT_MODEL_ENDPOINT": endpoint.url, "NIGHTSHIFT_MAX_BUDGET_USD": "0.3"}
        done = desk.delegate()
        done.failed("E_BUDGET", 7, "budget of $0.3 reached")
        assert done.result["rollback_performed"] is True
        desk.assert_untouched()


def test_e_test_failed(tmp_path: Path) -> None:
    with delegations(tmp_path, failing([*DAMAGE[:1], *BREAKING])) as desk:
        desk.env["NIGHTSHIFT_MAX_IMPLEMENT_RETRIES"] = "1"
        done = desk.delegate(execution={"test_command_id": "unit", "test_args": ["-s"]})
        done.failed("E_TEST_FAILED", 8, "`make test -s` failed: exit status 2")
        assert done.result["test_result"] == "failed"
        assert done.result["rollback_performed"] is True
        assert b"FAILED" in desk.kept(done, "test_log")
        assert len(desk.agent.names) == 4, "two attempts"
        desk.assert_untouched()


def test_e_test_failed_by_verify(tmp_path: Path) -> None:
    with delegations(tmp_path, plays(QUICK, {"verify": refused("It tests nothing.")})) as desk:
        done = desk.called(desk.payload(), **ONCE)
        done.failed("E_TEST_FAILED", 8, "It tests nothing.")
        assert done.result["test_result"] == "skipped"
        desk.assert_untouched()


@pytest.mark.parametrize(
    ("play", "exit_code", "rolled_back"),
    [
        ([*DAMAGE, crash(signal.SIGSEGV)], -signal.SIGSEGV, True),
        ([*DAMAGE, leave(3)], 3, True),
        ([say("There is nothing to do.")], 0, False),
        ([sh("ln -s /etc/passwd passwd")], 0, True),
    ],
    ids=["crash", "half-way", "nothing", "link"],
)
def test_e_apply_failed(tmp_path: Path, play: Play, exit_code: int, rolled_back: bool) -> None:
    with delegations(tmp_path, failing(play)) as desk:
        done = ended(desk.start(desk.payload(), **ONCE))
        done.failed("E_APPLY_FAILED", 9)
        assert done.result["diagnostics"]["exit_code"] == exit_code
        assert done.result["rollback_performed"] is rolled_back
        desk.assert_untouched()


def test_e_parse_error(tmp_path: Path) -> None:
    with delegations(tmp_path, failing([*DAMAGE, raw("this is no JSON\n"), leave(0)])) as desk:
        done = ended(desk.start(desk.payload(), **ONCE))
        done.failed("E_PARSE_ERROR", 10)
        assert done.result["diagnostics"]["parse_error"] is True
        assert desk.kept(done, "raw_stdout").endswith(b"this is no JSON\n")
        desk.assert_untouched()


def test_e_workspace_dirty(tmp_path: Path) -> None:
    with delegations(tmp_path, config=DEVELOPMENT) as desk:
        (desk.repository / "shop.py").write_text("half a thought\n")
        desk.look()
        for mode in ("copy", "in_place"):
            done = desk.ask(workspace={"checkout_mode": mode})
            done.failed("E_WORKSPACE_DIRTY", 11, "has local changes (shop.py)")
            desk.assert_untouched()
        assert desk.agent.seen == []


def test_e_publish(tmp_path: Path) -> None:
    """The repository does not take the branch: what was paid for is kept."""
    with delegations(tmp_path) as desk:
        lock = desk.repository / ".git/refs/heads/mine.lock"
        lock.touch()
        before = desk.working_tree()
        done = desk.delegate(workspace={"branch_name": "mine"})
        done.failed("E_PUBLISH", 12, "branch mine cannot be made", "the bundle is kept")
        assert desk.branches() == ["main"]
        assert b"docs/new.md" in desk.kept(done, "patch_file")
        assert desk.working_tree() == before
        desk.assert_tidy()


def test_a_branch_that_somebody_makes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    meanwhile = sh(f"git -C {tmp_path.resolve()}/shop branch mine HEAD~1")
    script = plays(QUICK, {"verify": [meanwhile, *QUICK["verify"]]})
    with delegations(tmp_path, script) as desk:
        done = desk.delegate(workspace={"branch_name": "mine"})
        done.failed("E_PUBLISH", 12, "branch mine cannot be made")
        there = git(desk.repository, "rev-parse", "mine", "HEAD~1").split()
        assert there[0] == there[1]


def test_e_internal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect, put there by the test: the traceback is kept, the caller gets one line."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(task, "try_change", fail)
    with delegations(tmp_path) as desk:
        done = desk.ask()
        done.failed("E_INTERNAL", 70, "a defect of nightshift: ZeroDivisionError")
        [kept] = (desk.desk / "nightshift").iterdir()
        assert "a defect" in (kept / "logs/traceback.txt").read_text()
        desk.assert_untouched()


@pytest.mark.parametrize(
    ("number", "code", "status", "mode"),
    [
        (signal.SIGINT, "E_INTERRUPTED", 130, "worktree"),
        (signal.SIGTERM, "E_TERMINATED", 143, "in_place"),
    ],
)
def test_a_signal(tmp_path: Path, number: int, code: str, status: int, mode: str) -> None:
    with delegations(tmp_path, failing([*DAMAGE, hang()]), config=DEVELOPMENT) as desk:
        process = desk.start(desk.payload(workspace={"checkout_mode": mode}))
        wait_for(lambda: desk.agent.hanging or process.poll() is not None, "the agent hangs")
        process.send_signal(number)
        done = ended(process)
        done.failed(code, status, "stopped by a signal")
        assert done.result["rollback_performed"] is True
        desk.assert_untouched()


def test_two_at_once(tmp_path: Path) -> None:
    """The first waits, with its agent, until the second has been refused."""
    gate = tmp_path.resolve() / "agent/gate"
    play = [*DAMAGE, sh(f"read x < {gate}"), *BREAKING]
    with delegations(tmp_path, failing(play)) as desk:
        os.mkfifo(gate)
        first = desk.start(desk.payload(), **ONCE)
        wait_for(lambda: desk.agent.seen or first.poll() is not None, "the first has begun")
        second = desk.ask()
        second.failed("E_WORKSPACE_DIRTY", 11, f"runs in {desk.repository}", "wait for its end")
        with gate.open("r+b", buffering=0) as opened:
            opened.write(b"\n")
            done = ended(first)
        assert done.result["diagnostics"]["error_code"] != "E_WORKSPACE_DIRTY", done
        desk.assert_untouched()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets: all that is temporary stays below it."""
    with tempfile.TemporaryDirectory(prefix="night-", dir="/tmp") as folder:
        yield Path(folder)


def test_after_a_kill_the_next_one_works(short_folder: Path) -> None:
    with delegations(short_folder, failing([*DAMAGE, hang()])) as desk:
        process = desk.start(desk.payload())
        wait_for(lambda: desk.agent.hanging, "the agent hangs")
        agent = desk.agent.seen[0].pid
        process.kill()
        with process:
            process.communicate()
        os.kill(agent, signal.SIGKILL)
        desk.agent.script(QUICK)
        assert desk.ask().result["ok"] is True
        desk.assert_tidy()


def test_a_provider_in_place_that_dies_half_way(tmp_path: Path) -> None:
    play = [*DAMAGE, crash(signal.SIGKILL)]
    with delegations(tmp_path, failing(play), config=DEVELOPMENT) as desk:
        done = desk.called(desk.payload(workspace={"checkout_mode": "in_place"}), **ONCE)
        done.failed("E_APPLY_FAILED", 9)
        assert done.result["rollback_performed"] is True
        desk.assert_untouched()
