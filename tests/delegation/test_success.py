"""A task that is done: what stands in the repository, in the result and on disk."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import append, plays, sh, write
from tests.support.delegation import QUICK, TASK, Delegations, Done, delegations
from tests.support.shop import GOOD, TEST, refused
from tests.support.trees import assert_same, places_of, unpacked
from tests.support.world import MODEL_KEY, git

PHASES = ["Prepare", "Plan", "Apply", "Verify", "Package", "Finalize"]


@dataclass
class Whole:
    """A delegation that several tests look at; ``status`` is the caller's own before it."""

    desk: Delegations
    done: Done
    status: str

    @property
    def result(self) -> Any:
        return self.done.result


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """A new test, which is held against mutants, and the command of the policy."""
    script = plays(GOOD, {"implement": [append("test_shop.py", TEST)]})
    with delegations(tmp_path_factory.mktemp("proven"), script) as desk:
        status = desk.status()
        done = desk.delegate(execution={"test_command_id": "unit", "test_args": ["-s"]})
        yield Whole(desk, done, status)


def test_a_task_becomes_one_commit_on_a_branch_of_its_own(proven: Whole) -> None:
    desk, done, result = proven.desk, proven.done, proven.result
    assert done.exit_status == 0, done
    head = git(desk.repository, "rev-parse", "HEAD").strip()
    branch, commit = result["git"]["branch"], result["git"]["commit_sha"]
    assert branch.startswith("nightshift/")
    assert (result["ok"], result["error"], result["rollback_performed"]) == (True, None, False)
    assert (result["provider_used"], result["model_used"]) == ("claude_code", "claude-opus-4-6")
    assert (result["files_changed"], result["test_result"]) == (["test_shop.py"], "passed")
    assert result["diff_stats"] == {"added": 3, "deleted": 0, "files": 1}
    assert result["git"] == {
        "base_ref": head,
        "branch": branch,
        "commit_sha": commit,
        "dirty": False,
    }
    nothing = {"timeout": False, "parse_error": False, "truncated": False}
    assert result["diagnostics"] == {"error_code": None, "exit_code": 0, **nothing}
    assert git(desk.repository, "rev-parse", branch).strip() == commit
    assert git(desk.repository, "rev-parse", f"{commit}^").strip() == head
    told = git(desk.repository, "log", "-1", "--format=%an <%ae>%n%B", commit).strip()
    assert told == f"Ada <ada@example.org>\nnightshift: {branch.removeprefix('nightshift/')}"
    assert git(desk.repository, "show", f"{commit}:test_shop.py").endswith(TEST)
    git(desk.repository, "fsck", "--strict")
    assert (desk.status(), desk.working_tree()) == (proven.status, desk.files_before())
    desk.assert_tidy()


def test_what_is_kept(proven: Whole) -> None:
    desk, done, kept = proven.desk, proven.done, proven.result["artifacts"]
    patch = desk.kept(done, "patch_file")
    assert patch.startswith(b"diff --git a/test_shop.py b/test_shop.py\n")
    bundle = json.loads((Path(kept["diff_bundle"]) / "bundle.json").read_text())
    assert (bundle["outcome"], bundle["task"]) == ("MR_READY", TASK)
    assert b"Ran 2 tests" in desk.kept(done, "test_log")
    assert b'"subtype":"success"' in desk.kept(done, "raw_stdout")
    assert desk.kept(done, "raw_stderr") == b""
    folder = Path(kept["diff_bundle"]).parent
    assert list(folder.parent.iterdir()) == [folder]
    assert json.loads((folder / "result.json").read_text()) == done.result
    kinds = [e["kind"] for e in desk.events if e["event"] == "artifact_written"]
    assert kinds == [kind for kind, path in kept.items() if path]
    texts = {str(p): unpacked(p) for p in folder.rglob("*") if p.is_file()}
    assert places_of([MODEL_KEY], {**texts, "stdout": done.stdout, "log": done.log}) == []


def test_the_events(proven: Whole) -> None:
    events = proven.desk.events
    starts = [e["phase"] for e in events if e["event"] == "phase_start"]
    ends = [(e["phase"], e["ok"]) for e in events if e["event"] == "phase_end"]
    assert (starts, ends) == (PHASES, [(name, True) for name in PHASES])
    commands = [e["command"] for e in events if e["event"] == "cmd_start"]
    assert commands[:3] == ["agent: implement", "agent: verify", "make test -s"]
    ended = [(e["command"], e["exit_status"]) for e in events if e["event"] == "cmd_end"]
    assert ended[:3] == [(command, 0) for command in commands[:3]]
    gates = [e for e in events if e["event"].startswith("gate_")]
    assert [(e["event"], e["gate"]) for e in gates] == [
        ("gate_required", "start"),
        ("gate_approved", "start"),
    ]


def test_a_second_attempt_knows_why_the_first_failed(tmp_path: Path) -> None:
    script = plays(QUICK, {"verify-task-1": refused("It tests nothing.")})
    with delegations(tmp_path, script) as desk:
        assert desk.ask().result["ok"] is True
        second = desk.agent.last("implement-task-2")
        assert second.last_failure == "It tests nothing."
        assert second.tree == desk.agent.seen[0].tree
        starts = [(e["phase"], e["attempt"]) for e in desk.events if e["event"] == "phase_start"]
        tries = [("Apply", 1), ("Verify", 1), ("Apply", 2), ("Verify", 2)]
        assert starts[2:6] == tries


def test_only_proposed(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        done = desk.ask(execution={"apply_changes": False})
        result = done.result
        assert (done.exit_status, result["ok"]) == (0, True)
        assert (result["git"]["branch"], result["git"]["commit_sha"]) == (None, None)
        assert result["files_changed"] == ["docs/new.md"]
        desk.assert_untouched()
        (desk.folder / "tmp/change.patch").write_bytes(desk.kept(done, "patch_file"))
        git(desk.repository, "apply", "--check", str(desk.folder / "tmp/change.patch"))


def test_a_dry_run_spends_nothing(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        done = desk.delegate(execution={"dry_run": True, "test_command_id": "unit"})
        assert (done.exit_status, done.result["ok"]) == (0, True)
        assert done.result["provider_used"] == "claude_code"
        assert (done.result["files_changed"], done.result["test_result"]) == ([], "skipped")
        assert desk.agent.seen == []
        desk.assert_untouched()


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """Base, branch and model by name, in a repository with hooks that somebody is working in."""
    folder = tmp_path_factory.mktemp("named")
    look = sh(f"stat -c %a {folder.resolve()}/shop/.git/config > docs/new.md")
    secret = write(f"docs/{MODEL_KEY}.md", "# New\n")
    with delegations(folder, plays(QUICK, {"implement": [look, secret]})) as desk:
        hooks = desk.repository / ".git/hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("reference-transaction", "post-checkout", "post-commit", "pre-commit"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {desk.folder}/tmp/{name}\n")
            (hooks / name).chmod(0o755)
        (desk.repository / ".git/config").chmod(0o644)
        (desk.repository / "shop.py").write_text("half a thought\n")
        (desk.repository / "new.txt").write_text("new\n")
        git(desk.repository, "add", "new.txt")
        desk.look()
        status = desk.status()
        done = desk.ask(
            workspace={"base_ref": "HEAD~1", "branch_name": "bot/discount"},
            model="claude-haiku-9",
            provider="claude_code",
        )
        assert done.result["ok"] is True, done
        yield Whole(desk, done, status)


def test_another_base_and_a_branch_by_name(named: Whole) -> None:
    old = git(named.desk.repository, "rev-parse", "HEAD~1").strip()
    assert named.result["git"]["base_ref"] == old
    assert git(named.desk.repository, "rev-parse", "bot/discount~1").strip() == old
    assert named.desk.agent.seen[0].head == old


def test_a_model_by_name(named: Whole) -> None:
    assert named.result["model_used"] == "claude-haiku-9"
    assert [bead.option("--model") for bead in named.desk.agent.seen] == ["claude-haiku-9"] * 2


def test_a_worktree_does_not_mind_what_somebody_is_working_on(named: Whole) -> None:
    desk = named.desk
    assert (desk.status(), desk.working_tree()) == (named.status, desk.files_before())
    assert "new.txt" not in desk.agent.seen[0].tree
    assert desk.agent.seen[0].git_status == ""


def test_hooks_of_the_repository_are_not_run(named: Whole) -> None:
    named.desk.assert_tidy()


def test_the_repositorys_settings_are_closed_while_an_agent_works(named: Whole) -> None:
    """Where an agent runs as another user, nothing else may keep it from them."""
    desk = named.desk
    assert git(desk.repository, "show", "bot/discount:docs/new.md") == "600\n"
    assert (desk.repository / ".git/config").stat().st_mode & 0o777 == 0o644


def test_a_secret_in_a_file_name_is_not_told(named: Whole) -> None:
    assert len(named.result["files_changed"]) == 2, named.done
    assert MODEL_KEY not in named.done.stdout + named.done.log


def test_a_copy_has_the_untracked_files_and_changes_nothing_there(tmp_path: Path) -> None:
    script = plays(
        GOOD, {"implement": [append("docs/new.md", "# New\n"), sh("rm -r build; ls -la")]}
    )
    with delegations(tmp_path, script) as desk:
        (desk.repository / "build").mkdir()
        (desk.repository / "build/lib.bin").write_bytes(b"\0\1")
        (desk.repository / "own.txt").write_text("mine\n")
        (desk.repository / "own.txt").chmod(0o640)
        (desk.repository / "link").symlink_to("own.txt")
        files = desk.working_tree()
        done = desk.ask(workspace={"checkout_mode": "copy"}, execution={})
        assert done.result["ok"] is True, done
        assert done.result["files_changed"] == ["docs/new.md"]
        seen = desk.agent.seen[0].tree
        assert {"build/lib.bin", "own.txt"} <= seen.keys()
        assert (seen["own.txt"][1] & 0o777, seen["link"][0]) == (0o640, "link")
        assert_same(desk.working_tree(), files)
        assert git(desk.repository, "diff", "--stat", "HEAD", desk.branches()[-1]).count("|") == 1
        desk.assert_tidy()


def test_a_copy_may_start_with_local_changes(tmp_path: Path) -> None:
    """What is changed is the difference to the snapshot, not the dirty set."""
    with delegations(tmp_path) as desk:
        (desk.repository / "shop.py").write_text("def total(prices, discount=0):\n    return 3\n")
        script = plays(GOOD, {"implement": [append("docs/new.md", "# New\n")]})
        desk.agent.script(script)
        workspace = {"checkout_mode": "copy", "clean_before": False}
        done = desk.ask(workspace=workspace, task_prompt="Write a page.")
        assert done.result["ok"] is True, done
        assert done.result["files_changed"] == ["docs/new.md"]
        assert done.result["git"]["dirty"] is True
        branch = done.result["git"]["branch"]
        assert git(desk.repository, "diff", "--name-only", "main", branch) == "docs/new.md\n"
        assert git(desk.repository, "diff", "--name-only").split() == ["shop.py"]


def test_a_change_that_rests_on_local_changes_is_no_commit(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        (desk.repository / "notes.txt").write_text("a line of mine\n")
        desk.agent.script(plays(GOOD, {"implement": [append("notes.txt", "the agent's\n")]}))
        config = {"checkout_mode": "copy", "clean_before": False}
        done = desk.ask(workspace=config, task_prompt="Write a line.")
        done.failed("E_APPLY_FAILED", 9, "rests on changes that are not committed")
        assert desk.branches() == ["main"]
        assert git(desk.repository, "diff", "--name-only").split() == ["notes.txt"]


def test_only_a_folder_may_change(tmp_path: Path) -> None:
    script = plays(GOOD, {"implement": [write("docs/new.md", "# New\n")]})
    with delegations(tmp_path, script) as desk:
        done = desk.ask(workspace={"workspace_subdir": "docs/"})
        assert done.result["files_changed"] == ["docs/new.md"], done
        desk.agent.script(GOOD)
        desk.look()
        done = desk.ask(workspace={"workspace_subdir": "./docs"})
        done.failed("E_POLICY_DENY", 3, "test_shop.py is outside the paths")
        desk.assert_untouched()


def test_one_after_another_have_branches_of_their_own(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        job = {"CI_PIPELINE_ID": "4711", "CI_PIPELINE_SOURCE": "web", "GITLAB_USER_LOGIN": "olga"}
        names = [desk.called(desk.payload(), **job).result["git"]["branch"] for _ in range(2)]
        assert names == ["nightshift/4711", "nightshift/4711-2"]
        kept = sorted(path.name for path in (desk.desk / "nightshift").iterdir())
        assert kept == ["delegate-4711", "delegate-4711-2"]
