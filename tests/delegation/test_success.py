"""A task that is done: what stands in the repository, in the result and on disk."""

import json
import shutil
from pathlib import Path

from tests.support.agent import append, plays, sh, write
from tests.support.delegation import QUICK, TASK, Delegations, Done, delegations, ended
from tests.support.shop import GOOD, TEST, refused
from tests.support.trees import assert_same, places_of, unpacked
from tests.support.world import MODEL_KEY, git

EVENTS = ["Prepare", "Plan", "Apply", "Verify", "Package", "Finalize"]


def test_a_task_becomes_one_commit_on_a_branch_of_its_own(tmp_path: Path) -> None:
    with delegations(tmp_path, GOOD) as desk:
        head, status = git(desk.repository, "rev-parse", "HEAD").strip(), desk.status()
        done = desk.delegate(execution={"test_command_id": "unit"})
        assert done.exit_status == 0, done
        result = done.result
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
        assert (desk.status(), desk.working_tree()) == (status, desk.files_before())
        desk.assert_tidy()


def test_what_is_kept(tmp_path: Path) -> None:
    with delegations(tmp_path, GOOD) as desk:
        done = desk.delegate(execution={"test_command_id": "unit", "test_args": ["-s"]})
        kept = done.result["artifacts"]
        patch = desk.kept(done, "patch_file")
        assert patch.startswith(b"diff --git a/test_shop.py b/test_shop.py\n")
        bundle = json.loads((Path(kept["diff_bundle"]) / "bundle.json").read_text())
        assert (bundle["outcome"], bundle["task"]) == ("MR_READY", TASK)
        assert b"Ran 2 tests" in desk.kept(done, "test_log")
        assert b'"subtype": "success"' in desk.kept(done, "raw_stdout")
        assert desk.kept(done, "raw_stderr") == b""
        folder = Path(kept["diff_bundle"]).parent
        assert json.loads((folder / "result.json").read_text()) == done.result
        kinds = [e["kind"] for e in desk.events if e["event"] == "artifact_written"]
        assert kinds == [kind for kind, path in kept.items() if path]
        texts = {str(p): unpacked(p) for p in folder.rglob("*") if p.is_file()}
        assert places_of([MODEL_KEY], {**texts, "stdout": done.stdout, "log": done.log}) == []


def test_the_events(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        desk.delegate(execution={"test_command_id": "unit", "test_args": ["-s"]})
        starts = [e["phase"] for e in desk.events if e["event"] == "phase_start"]
        ends = [(e["phase"], e["ok"]) for e in desk.events if e["event"] == "phase_end"]
        assert (starts, ends) == (EVENTS, [(name, True) for name in EVENTS])
        commands = [e["command"] for e in desk.events if e["event"] == "cmd_start"]
        assert commands[:3] == ["agent: implement", "agent: verify", "make test -s"]
        ended = [(e["command"], e["exit_status"]) for e in desk.events if e["event"] == "cmd_end"]
        assert ended[:3] == [(command, 0) for command in commands[:3]]
        gates = [e for e in desk.events if e["event"].startswith("gate_")]
        assert [(e["event"], e["gate"]) for e in gates] == [
            ("gate_required", "start"),
            ("gate_approved", "start"),
        ]


def test_a_second_attempt_knows_why_the_first_failed(tmp_path: Path) -> None:
    script = plays(QUICK, {"verify-task-1": refused("It tests nothing.")})
    with delegations(tmp_path, script) as desk:
        assert desk.delegate().result["ok"] is True
        second = desk.agent.last("implement-task-2")
        assert second.last_failure == "It tests nothing."
        assert second.tree == desk.agent.seen[0].tree
        starts = [(e["phase"], e["attempt"]) for e in desk.events if e["event"] == "phase_start"]
        tries = [("Apply", 1), ("Verify", 1), ("Apply", 2), ("Verify", 2)]
        assert starts[2:6] == tries


def test_only_proposed(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        done = desk.delegate(execution={"apply_changes": False})
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


def test_another_base_and_a_branch_by_name(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        old = git(desk.repository, "rev-parse", "HEAD~1").strip()
        workspace = {"base_ref": "HEAD~1", "branch_name": "bot/discount"}
        done = desk.delegate(workspace=workspace)
        assert done.result["git"]["base_ref"] == old
        assert git(desk.repository, "rev-parse", "bot/discount~1").strip() == old
        assert desk.agent.seen[0].head == old


def test_a_worktree_does_not_mind_what_somebody_is_working_on(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        (desk.repository / "shop.py").write_text("half a thought\n")
        (desk.repository / "new.txt").write_text("new\n")
        git(desk.repository, "add", "new.txt")
        before = (desk.status(), desk.working_tree())
        assert desk.delegate().result["ok"] is True
        assert (desk.status(), desk.working_tree()) == before
        assert "new.txt" not in desk.agent.seen[0].tree
        assert desk.agent.seen[0].git_status == ""


def test_hooks_of_the_repository_are_not_run(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        hooks = desk.repository / ".git/hooks"
        shutil.rmtree(hooks, ignore_errors=True)
        hooks.mkdir()
        for name in ("reference-transaction", "post-checkout", "post-commit", "pre-commit"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {desk.folder}/tmp/{name}\n")
            (hooks / name).chmod(0o755)
        assert desk.delegate().result["ok"] is True
        desk.assert_tidy()


def test_the_repositorys_settings_are_closed_while_an_agent_works(tmp_path: Path) -> None:
    """Where an agent runs as another user, nothing else may keep it from them."""
    look = sh(f"stat -c %a {tmp_path.resolve()}/shop/.git/config > docs/new.md")
    with delegations(tmp_path, plays(QUICK, {"implement": [look]})) as desk:
        config = desk.repository / ".git/config"
        config.chmod(0o644)
        done = desk.delegate()
        assert (
            git(desk.repository, "show", f"{done.result['git']['branch']}:docs/new.md") == "600\n"
        )
        assert config.stat().st_mode & 0o777 == 0o644


def test_a_secret_in_a_file_name_is_not_told(tmp_path: Path) -> None:
    script = plays(QUICK, {"implement": [write(f"docs/{MODEL_KEY}.md", "# New\n")]})
    with delegations(tmp_path, script) as desk:
        done = desk.delegate()
        assert len(done.result["files_changed"]) == 1, done
        assert MODEL_KEY not in done.stdout + done.log


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
        done = desk.delegate(workspace={"checkout_mode": "copy"}, execution={})
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
        done = desk.delegate(workspace=workspace, task_prompt="Write a page.")
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
        done = desk.delegate(workspace=config, task_prompt="Write a line.")
        done.failed("E_APPLY_FAILED", 9, "rests on changes that are not committed")
        assert desk.branches() == ["main"]
        assert git(desk.repository, "diff", "--name-only").split() == ["notes.txt"]


def test_only_a_folder_may_change(tmp_path: Path) -> None:
    script = plays(GOOD, {"implement": [write("docs/new.md", "# New\n")]})
    with delegations(tmp_path, script) as desk:
        done = desk.delegate(workspace={"workspace_subdir": "docs/"})
        assert done.result["files_changed"] == ["docs/new.md"], done
        desk.agent.script(GOOD)
        desk.look()
        done = desk.delegate(workspace={"workspace_subdir": "./docs"})
        done.failed("E_POLICY_DENY", 3, "test_shop.py is outside the paths")
        desk.assert_untouched()


def test_a_model_by_name(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        done = desk.delegate(model="claude-haiku-9", provider="claude_code")
        assert done.result["model_used"] == "claude-haiku-9"
        assert [bead.option("--model") for bead in desk.agent.seen] == ["claude-haiku-9"] * 2


def test_one_after_another_have_branches_of_their_own(tmp_path: Path) -> None:
    with delegations(tmp_path) as desk:
        job = {"CI_PIPELINE_ID": "4711", "CI_PIPELINE_SOURCE": "web", "GITLAB_USER_LOGIN": "olga"}
        names = [_in_job(desk, job).result["git"]["branch"] for _ in range(2)]
        assert names == ["nightshift/4711", "nightshift/4711-2"]
        kept = sorted(path.name for path in (desk.desk / "nightshift").iterdir())
        assert kept == ["delegate-4711", "delegate-4711-2"]


def _in_job(desk: Delegations, job: dict[str, str]) -> Done:
    return ended(desk.start(desk.payload(), **job))
