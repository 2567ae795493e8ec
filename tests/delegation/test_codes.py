"""Every error code through the real command, and what state it leaves behind."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gitlab_nightshift.records import events
from gitlab_nightshift.sandbox import process as processes
from gitlab_nightshift.stages.work.delegation import task_process
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
from tests.support.shop import BEADS, GOOD, bill
from tests.support.trees import places_of, processes_in, unpacked, wait_for
from tests.support.world import MODEL_KEY, git

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
    with delegations(tmp_path) as context:
        done = context.ask(workspace={"base_ref": "no-such-ref"})
        done.failed("E_CONFIG", 2, "base_ref: 'no-such-ref' is not a commit here")
        assert done.result["rollback_performed"] is False
        assert context.agent.seen == []
        context.assert_untouched()


def test_e_policy_deny(tmp_path: Path) -> None:
    with delegations(tmp_path, failing([*DAMAGE, write("package.json", "{}\n")])) as context:
        done = context.delegate()
        done.failed("E_POLICY_DENY", 3, "package.json is a dependency manifest or lock file")
        assert done.result["rollback_performed"] is True
        assert (done.result["files_changed"], done.result["git"]["branch"]) == ([], None)
        assert b"package.json" in context.kept(done, "patch_file")
        context.assert_untouched()


@pytest.mark.parametrize("name", [f"{MODEL_KEY}.md", "new.md"])
def test_a_change_with_a_secret_in_it(tmp_path: Path, name: str) -> None:
    """The name, and the bytes: neither is committed, kept or logged."""
    script = plays(QUICK, {"implement": [write(f"docs/{name}", f"It is {MODEL_KEY}.\n")]})
    with delegations(tmp_path, script) as context:
        done = context.ask()
        done.failed("E_POLICY_DENY", 3, "the value of a")
        assert (context.branches(), done.result["artifacts"]["patch_file"]) == (["main"], None)
        kept = {str(p): unpacked(p) for p in context.context.rglob("*") if p.is_file()}
        assert places_of([MODEL_KEY], {**kept, "stdout": done.stdout, "log": done.log}) == []
        context.assert_untouched()


def test_e_approval_required_before_an_agent_runs(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        context.env["NIGHTSHIFT_ORCHESTRATOR"] = "somebody-else"
        done = context.ask()
        done.failed("E_APPROVAL_REQUIRED", 4, "nobody has approved it", "(planner)")
        assert context.agent.seen == []
        assert [e["gate"] for e in context.events if e["event"] == "gate_required"] == ["start"]
        context.assert_untouched()


def test_e_approval_required_for_what_was_changed(tmp_path: Path) -> None:
    """A file that no pattern of the policy lists, and one that is listed and sensitive."""
    play = [append("notes.txt", "one more\n"), write("docs/Dockerfile", "FROM scratch\n")]
    with delegations(tmp_path, failing(play)) as context:
        done = context.delegate()
        done.failed("E_APPROVAL_REQUIRED", 4, "notes.txt is outside policy.writable_paths")
        assert "docs/Dockerfile decides what is built" in done.result["error"]
        assert done.result["rollback_performed"] is True
        assert b"notes.txt" in context.kept(done, "patch_file")
        assert (Path(done.result["artifacts"]["diff_bundle"]) / "bundle.json").is_file()
        required = [e["gate"] for e in context.events if e["event"] == "gate_required"]
        assert required == ["start", "write"]
        context.assert_untouched()


def test_e_provider_unavailable_without_a_key(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        del context.env["ANTHROPIC_API_KEY"]
        done = context.ask(provider="claude_code")
        done.failed("E_PROVIDER_UNAVAILABLE", 5, "no model key")
        context.assert_untouched()


def test_e_provider_unavailable_in_the_middle(tmp_path: Path) -> None:
    """The endpoint refuses the key after the agent has begun to change files."""
    with delegations(tmp_path, failing([*DAMAGE, *[retry(401)] * 3, hang()])) as context:
        done = context.delegate()
        done.failed("E_PROVIDER_UNAVAILABLE", 5)
        assert done.result["rollback_performed"] is True
        context.assert_untouched()


def test_e_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with delegations(tmp_path, failing([*DAMAGE, hang()])) as context:
        pass_at_once(monkeypatch, 601, lambda: context.agent.hanging)
        done = context.ask(execution={"max_runtime_s": 600})
        done.failed("E_TIMEOUT", 6, "deadline")
        assert done.result["diagnostics"]["timeout"] is True
        assert done.result["rollback_performed"] is True
        context.assert_untouched()


def test_e_timeout_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = tmp_path.resolve() / "agent/began"
    slow = f"import time\nopen({str(began)!r}, 'w').close()\ntime.sleep(600)\n"
    with delegations(tmp_path, failing([write("shop.py", slow)])) as context:
        pass_at_once(monkeypatch, 601, began.exists)
        done = context.ask(execution={"test_command_id": "unit", "max_runtime_s": 600})
        done.failed("E_TIMEOUT", 6)
        assert done.result["test_result"] == "failed"
        context.assert_untouched()


def test_e_timeout_of_a_bead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with delegations(tmp_path, failing([*DAMAGE, hang()])) as context:
        pass_at_once(monkeypatch, 101, lambda: context.agent.hanging)
        done = context.called(context.payload(), NIGHTSHIFT_BEAD_TIMEOUT="100", **ONCE)
        done.failed("E_TIMEOUT", 6, "Implement failed (timeout)")
        context.assert_untouched()


def test_e_budget(tmp_path: Path) -> None:
    script = failing([*DAMAGE, spend(0.5)], verify=[spend(0.9)])
    with ModelEndpoint(bill, BEADS) as endpoint, delegations(tmp_path, script) as context:
        context.env |= {
            "NIGHTSHIFT_MODEL_ENDPOINT": endpoint.url,
            "NIGHTSHIFT_MAX_BUDGET_USD": "0.3",
        }
        done = context.delegate()
        done.failed("E_BUDGET", 7, "budget of $0.3 reached")
        assert done.result["rollback_performed"] is True
        context.assert_untouched()


def test_e_test_failed(tmp_path: Path) -> None:
    with delegations(tmp_path, failing([*DAMAGE[:1], *BREAKING])) as context:
        context.env |= ONCE
        done = context.delegate(execution={"test_command_id": "unit", "test_args": ["-s"]})
        done.failed("E_TEST_FAILED", 8, "`make test -s` failed: exit status 2")
        assert done.result["test_result"] == "failed"
        assert done.result["rollback_performed"] is True
        assert b"FAILED" in context.kept(done, "test_log")
        assert context.agent.names == ["implement-task-1"], "no Verify"
        context.assert_untouched()


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
    with delegations(tmp_path, failing(play)) as context:
        done = ended(context.start(context.payload(), **ONCE))
        done.failed("E_APPLY_FAILED", 9)
        assert done.result["diagnostics"]["exit_code"] == exit_code
        assert done.result["rollback_performed"] is rolled_back
        context.assert_untouched()


def test_e_parse_error(tmp_path: Path) -> None:
    with delegations(tmp_path, failing([*DAMAGE, raw("this is no JSON\n"), leave(0)])) as context:
        done = ended(context.start(context.payload(), **ONCE))
        done.failed("E_PARSE_ERROR", 10)
        assert done.result["diagnostics"]["parse_error"] is True
        assert context.kept(done, "raw_stdout").endswith(b"this is no JSON\n")
        context.assert_untouched()


def test_e_workspace_dirty(tmp_path: Path) -> None:
    with delegations(tmp_path, config=DEVELOPMENT) as context:
        (context.repository / "shop.py").write_text("half a thought\n")
        context.look()
        for mode in ("copy", "in_place"):
            done = context.ask(workspace={"checkout_mode": mode})
            done.failed("E_WORKSPACE_DIRTY", 11, "has local changes (shop.py)")
            context.assert_untouched()
        assert context.agent.seen == []


def test_e_publish(tmp_path: Path) -> None:
    """The repository refuses the branch, which somebody has made meanwhile: it is not overwritten,
    and the work that was paid for is kept."""
    meanwhile = sh(f"git -C {tmp_path.resolve()}/shop branch mine HEAD~1")
    script = plays(QUICK, {"verify": [meanwhile, *QUICK["verify"]]})
    with delegations(tmp_path, script) as context:
        done = context.delegate(workspace={"branch_name": "mine"})
        done.failed("E_PUBLISH", 12, "branch mine cannot be created", "the bundle is kept")
        there = git(context.repository, "rev-parse", "mine", "HEAD~1").split()
        assert (there[0], context.branches()) == (there[1], ["main", "mine"])
        assert b"docs/new.md" in context.kept(done, "patch_file")
        assert context.working_tree() == context.files_before()
        context.assert_tidy()


def test_e_publish_where_the_branch_is_locked(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        (context.repository / ".git/refs/heads/mine.lock").touch()
        done = context.delegate(workspace={"branch_name": "mine"})
        done.failed("E_PUBLISH", 12, "branch mine cannot be created", "the bundle is kept")
        assert context.branches() == ["main"]
        context.assert_tidy()


def test_e_internal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect, put there by the test: the traceback is kept, the caller gets one line."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(task_process, "do_task", fail)
    with delegations(tmp_path) as context:
        done = context.ask()
        done.failed("E_INTERNAL", 70, "a defect of nightshift: ZeroDivisionError")
        [kept] = (context.context / "nightshift").iterdir()
        assert "a defect" in (kept / "logs/traceback.txt").read_text()
        context.assert_untouched()


@pytest.mark.parametrize(
    ("number", "code", "status", "mode"),
    [
        (signal.SIGINT, "E_INTERRUPTED", 130, "worktree"),
        (signal.SIGTERM, "E_TERMINATED", 143, "in_place"),
    ],
)
def test_a_signal(tmp_path: Path, number: int, code: str, status: int, mode: str) -> None:
    with delegations(tmp_path, failing([*DAMAGE, hang()]), config=DEVELOPMENT) as context:
        process = context.start(context.payload(workspace={"checkout_mode": mode}))
        wait_for(lambda: context.agent.hanging or process.poll() is not None, "the agent hangs")
        process.send_signal(number)
        # Two signals at once have no order: the kernel's and Python's handlers may nest.
        wait_for(lambda: context.agent.interrupted or process.poll() is not None, "its end")
        process.send_signal(signal.SIGTERM)  # the first one counts
        done = ended(process)
        done.failed(code, status, "stopped by a signal")
        assert done.result["rollback_performed"] is True
        context.assert_untouched()


def test_two_at_once(tmp_path: Path) -> None:
    """The first waits, with its agent, until the second has ended: both get a branch, and a third
    that needs the checkout for itself is refused."""
    gate = tmp_path.resolve() / "agent/gate"
    wait = sh(f"if mkdir {gate}-first; then read x < {gate}; fi")
    script = plays(GOOD, {"implement": [wait, append("docs/new.md", "# New\n")]})
    with delegations(tmp_path, script, config=DEVELOPMENT) as context:
        (context.repository / ".git/config").chmod(0o644)
        os.mkfifo(gate)
        first = context.start(context.payload(), **ONCE)
        began = Path(f"{gate}-first")
        wait_for(lambda: began.exists() or first.poll() is not None, "the first has begun")
        in_place = context.ask(workspace={"checkout_mode": "in_place"})
        in_place.failed(
            "E_WORKSPACE_DIRTY", 11, f"runs in {context.repository}", "wait for its end"
        )
        second = context.ask(workspace={"checkout_mode": "copy"})
        assert second.result["ok"] is True, second
        assert (context.repository / ".git/config").stat().st_mode & 0o777 == 0o600
        with gate.open("r+b", buffering=0) as opened:
            opened.write(b"\n")
            done = ended(first)
        assert done.result["ok"] is True, done
        branches = {each.result["git"]["branch"] for each in (done, second)}
        assert len(branches & set(context.branches())) == 2
        assert (context.repository / ".git/config").stat().st_mode & 0o777 == 0o644
        context.assert_tidy()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets: all that is temporary stays below it."""
    with tempfile.TemporaryDirectory(prefix="night-", dir="/tmp") as folder:
        yield Path(folder)


def test_after_a_kill_the_next_one_works(short_folder: Path) -> None:
    """The supervisor is killed: the others end by themselves."""
    with delegations(short_folder, failing([*DAMAGE, hang()])) as context:
        process = context.start(context.payload())
        wait_for(lambda: context.agent.hanging, "the agent hangs")
        process.kill()
        with process:
            process.communicate()
        wait_for(lambda: not processes_in(short_folder), "all have ended")
        context.agent.script(QUICK)
        assert context.ask().result["ok"] is True
        context.assert_tidy()


def test_a_provider_in_place_that_dies_half_way(tmp_path: Path) -> None:
    play = [*DAMAGE, crash(signal.SIGKILL)]
    with delegations(tmp_path, failing(play), config=DEVELOPMENT) as context:
        done = context.called(context.payload(workspace={"checkout_mode": "in_place"}), **ONCE)
        done.failed("E_APPLY_FAILED", 9)
        assert done.result["diagnostics"]["exit_code"] == -signal.SIGKILL
        assert done.result["rollback_performed"] is True
        context.assert_untouched()
