"""A task that is done: what is in the repository, in the result and on disk."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from gitlab_nightshift import api
from tests.support.agent import append, plays, raw, say, sh, write
from tests.support.delegation import DEVELOPMENT, QUICK, TASK, Delegations, Done, delegations
from tests.support.shop import GOOD, TEST, refused
from tests.support.trees import assert_same, places_of, unpacked
from tests.support.world import MODEL_KEY, git

from .test_gates import NETWORK
from .test_input import EVIL

PHASES = ["Prepare", "Plan", "Apply", "Verify", "Package", "Finalize"]


@dataclass
class Whole:
    """A delegation that several tests look at; ``status`` is the caller's own before it."""

    context: Delegations
    done: Done
    status: str

    @property
    def result(self) -> Any:
        return self.done.result


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """A new test, which is run against mutants, and the command of the policy."""
    script = plays(GOOD, {"implement": [append("test_shop.py", TEST)]})
    with delegations(tmp_path_factory.mktemp("proven"), script) as context:
        status = context.status()
        done = context.delegate(execution={"test_command_id": "unit", "test_args": ["-s"]})
        yield Whole(context, done, status)


def test_a_task_becomes_one_commit_on_a_branch_of_its_own(proven: Whole) -> None:
    context, done, result = proven.context, proven.done, proven.result
    assert done.exit_status == 0, done
    head = git(context.repository, "rev-parse", "HEAD").strip()
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
    assert git(context.repository, "rev-parse", branch).strip() == commit
    assert git(context.repository, "rev-parse", f"{commit}^").strip() == head
    told = git(context.repository, "log", "-1", "--format=%an <%ae>%n%B", commit).strip()
    assert told == f"Ada <ada@example.org>\nnightshift: {branch.removeprefix('nightshift/')}"
    assert git(context.repository, "show", f"{commit}:test_shop.py").endswith(TEST)
    git(context.repository, "fsck", "--strict")
    assert (context.status(), context.working_tree()) == (proven.status, context.files_before())
    context.assert_tidy()


def test_what_is_kept(proven: Whole) -> None:
    context, done, kept = proven.context, proven.done, proven.result["artifacts"]
    patch = context.kept(done, "patch_file")
    assert patch.startswith(b"diff --git a/test_shop.py b/test_shop.py\n")
    bundle = json.loads((Path(kept["diff_bundle"]) / "bundle.json").read_text())
    assert (bundle["outcome"], bundle["task"]) == ("MR_READY", TASK)
    assert b"Ran 2 tests" in context.kept(done, "test_log")
    assert b'"subtype":"success"' in context.kept(done, "raw_stdout")
    assert context.kept(done, "raw_stderr") == b""
    folder = Path(kept["diff_bundle"]).parent
    assert list(folder.parent.iterdir()) == [folder]
    assert json.loads((folder / "result.json").read_text()) == done.result
    kinds = [e["kind"] for e in context.events if e["event"] == "artifact_written"]
    assert kinds == [kind for kind, path in kept.items() if path]
    texts = {str(p): unpacked(p) for p in folder.rglob("*") if p.is_file()}
    assert places_of([MODEL_KEY], {**texts, "stdout": done.stdout, "log": done.log}) == []


def test_the_result_is_as_its_schema_says(proven: Whole) -> None:
    schema = api.build_schemas()["result"]
    jsonschema.validate(proven.result, schema)
    assert set(proven.result) == set(schema["properties"])


def test_the_events(proven: Whole) -> None:
    events = proven.context.events
    starts = [e["phase"] for e in events if e["event"] == "phase_start"]
    ends = [(e["phase"], e["ok"]) for e in events if e["event"] == "phase_end"]
    assert (starts, ends) == (PHASES, [(name, True) for name in PHASES])
    commands = [e["command"] for e in events if e["event"] == "cmd_start"]
    assert commands[:2] == ["agent: implement", "make test -s"]
    assert commands[-1] == "agent: verify"
    ended = [(e["command"], e["exit_status"]) for e in events if e["event"] == "cmd_end"]
    assert ended[:2] == [(command, 0) for command in commands[:2]]
    gates = [e for e in events if e["event"].startswith("gate_")]
    assert [(e["event"], e["gate"]) for e in gates] == [
        ("gate_required", "start"),
        ("gate_approved", "start"),
    ]


def test_a_second_attempt_knows_why_the_first_failed(tmp_path: Path) -> None:
    script = plays(QUICK, {"verify-task-1": refused("It tests nothing.")})
    with delegations(tmp_path, script) as context:
        assert context.ask().result["ok"] is True
        second = context.agent.last("implement-task-2")
        assert second.last_failure == "Verify (an agent) says: It tests nothing."
        assert second.tree == context.agent.seen[0].tree
        starts = [(e["phase"], e["attempt"]) for e in context.events if e["event"] == "phase_start"]
        tries = [("Apply", 1), ("Verify", 1), ("Apply", 2), ("Verify", 2)]
        assert starts[2:6] == tries
        [kept] = (context.context / "nightshift").iterdir()
        bundle = json.loads((kept / "bundle/bundle.json").read_text())
        [failed] = bundle["failed_attempts"]
        assert failed["why"] == second.last_failure


def test_only_proposed(tmp_path: Path) -> None:
    """A patch needs nobody to commit as."""
    with delegations(tmp_path) as context:
        config = context.repository / ".git/config"
        config.write_text(config.read_text().replace("email", "nomail"))
        context.look()
        context.ask().failed("E_CONFIG", 2, "set git's user.name and user.email")
        done = context.ask(execution={"apply_changes": False})
        result = done.result
        assert (done.exit_status, result["ok"]) == (0, True)
        assert (result["git"]["branch"], result["git"]["commit_sha"]) == (None, None)
        assert result["files_changed"] == ["docs/new.md"]
        context.assert_untouched()
        (context.folder / "tmp/change.patch").write_bytes(context.kept(done, "patch_file"))
        git(context.repository, "apply", "--check", str(context.folder / "tmp/change.patch"))


def test_a_dry_run_brings_back_patch_and_words(tmp_path: Path) -> None:
    words = say("I wrote a page.\x1b[31m\u202e\nIt is short.")
    script = plays(GOOD, {"implement": [write("docs/new.md", "# New\n"), words]})
    with delegations(tmp_path, script, config=DEVELOPMENT) as context:
        for mode in ("worktree", "in_place"):
            done = context.ask(
                execution={"dry_run": True, "test_command_id": "unit"},
                workspace={"checkout_mode": mode, "clean_after": False},
            )
            result = done.result
            assert (result["ok"], result["test_result"]) == (True, "passed"), done
            assert (result["git"]["branch"], result["git"]["commit_sha"]) == (None, None)
            assert result["git"]["dirty"] is False
            assert result["summary"].splitlines() == [
                "I wrote a page. [31m ",
                "It is short.",
                "1 file changed, +1 -0; the test passed; dry run, proposed as a patch; cost $0.00",
            ]
            assert b"+# New\n" in context.kept(done, "patch_file")
            context.assert_untouched()


def test_a_command_that_is_not_there_is_named_to_the_next_attempt(tmp_path: Path) -> None:
    text = "Exit code 127\n/bin/bash: line 1: python3: command not found"
    part = {"type": "tool_result", "is_error": True, "content": text}
    event = {"type": "user", "message": {"role": "user", "content": [part]}}
    script = plays(QUICK, {"implement": [raw(f"{json.dumps(event)}\n")]})
    with delegations(tmp_path, script) as context:
        context.env["NIGHTSHIFT_MAX_IMPLEMENT_RETRIES"] = "1"
        named = "not found in the sandbox: python3."
        context.ask().failed("E_APPLY_FAILED", 9, f"Reported by the agent as {named}")
        first, second = (bead.prompt for bead in context.agent.seen)
        assert (named in first, named in second) == (False, True)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """Named base, branch, folder and model, for a task full of shell and an agent that has a lot to
    say, in a repository with hooks that somebody is working in."""
    folder = tmp_path_factory.mktemp("named")
    look = sh(f"stat -c %a {folder.resolve()}/shop/.git/config > docs/new.md")
    script = plays(QUICK, {"implement": [look, say("x" * 5000)]})
    config = NETWORK.replace("GATE", "require_approval")
    with delegations(folder, script, config=config) as context:
        context.agent.ask_git()
        hooks = context.repository / ".git/hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("reference-transaction", "post-checkout", "post-commit", "pre-commit"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {context.folder}/tmp/{name}\n")
            (hooks / name).chmod(0o755)
        (context.repository / ".git/config").chmod(0o644)
        (context.repository / "shop.py").write_text("half a thought\n")
        (context.repository / "new.txt").write_text("new\n")
        git(context.repository, "add", "new.txt")
        context.look()
        status = context.status()
        done = context.ask(
            task_prompt=EVIL,
            workspace={
                "base_ref": "HEAD~1",
                "branch_name": "bot/discount",
                "workspace_subdir": "docs/",
            },
            model="claude-haiku-9",
            provider="claude_code",
        )
        assert done.result["ok"] is True, done
        yield Whole(context, done, status)


def test_another_base_and_a_branch_by_name(named: Whole) -> None:
    old = git(named.context.repository, "rev-parse", "HEAD~1").strip()
    assert named.result["git"]["base_ref"] == old
    assert git(named.context.repository, "rev-parse", "bot/discount~1").strip() == old
    assert named.context.agent.seen[0].head == old


def test_a_model_by_name(named: Whole) -> None:
    assert named.result["model_used"] == "claude-haiku-9"
    assert [bead.option("--model") for bead in named.context.agent.seen] == ["claude-haiku-9"] * 2


def test_a_folder_by_name(named: Whole) -> None:
    """What is changed elsewhere is refused: test_gates.py."""
    assert named.result["files_changed"] == ["docs/new.md"]


def test_shell_in_the_task_is_words(named: Whole) -> None:
    bead = named.context.agent.seen[0]
    assert EVIL in bead.prompt
    assert not any(EVIL in word for word in bead.argv)
    assert list(named.context.folder.rglob("EVIL*")) == []


def test_the_network_is_closed_unless_it_is_asked_for(named: Whole) -> None:
    """Although the policy has hosts that may be reached."""
    assert ["HTTPS_PROXY" in bead.env for bead in named.context.agent.seen] == [False, False]


def test_what_is_cut_is_said(named: Whole) -> None:
    result = named.result
    assert len(result["summary"]) == 4000
    assert result["summary"].startswith("xxx")
    assert "1 file changed, +1 -0" in result["summary"]
    assert result["diagnostics"]["truncated"] is True


def test_a_worktree_does_not_mind_what_somebody_is_working_on(named: Whole) -> None:
    context = named.context
    assert (context.status(), context.working_tree()) == (named.status, context.files_before())
    assert "new.txt" not in context.agent.seen[0].tree
    assert context.agent.seen[0].git_status == ""
    assert named.result["git"]["dirty"] is True, "as its owner left it"


def test_hooks_of_the_repository_are_not_run(named: Whole) -> None:
    named.context.assert_tidy()


def test_the_repositorys_settings_are_closed_while_an_agent_works(named: Whole) -> None:
    """Where an agent runs as another user, nothing else may keep it from them."""
    context = named.context
    assert git(context.repository, "show", "bot/discount:docs/new.md") == "600\n"
    assert (context.repository / ".git/config").stat().st_mode & 0o777 == 0o644


def test_a_copy_has_what_is_not_committed_and_changes_nothing_there(tmp_path: Path) -> None:
    """What is changed is the difference to the snapshot, not the dirty set."""
    script = plays(
        GOOD, {"implement": [append("docs/new.md", "# New\n"), sh("rm -r build; ls -la")]}
    )
    with delegations(tmp_path, script) as context:
        (context.repository / "build").mkdir()
        (context.repository / "build/lib.bin").write_bytes(b"\0\1")
        (context.repository / "own.txt").write_text("mine\n")
        (context.repository / "own.txt").chmod(0o640)
        (context.repository / "link").symlink_to("own.txt")
        assert context.prepare(workspace={"checkout_mode": "copy"}).code is None
        (context.repository / "shop.py").write_text("def total(prices):\n    return 3\n")
        files = context.working_tree()
        done = context.ask(workspace={"checkout_mode": "copy", "clean_before": False})
        assert done.result["ok"] is True, done
        assert done.result["files_changed"] == ["docs/new.md"]
        assert done.result["git"]["dirty"] is True
        seen = context.agent.seen[0].tree
        assert {"build/lib.bin", "own.txt"} <= seen.keys()
        assert (seen["own.txt"][1] & 0o777, seen["link"][0]) == (0o640, "link")
        assert_same(context.working_tree(), files)
        branch = done.result["git"]["branch"]
        assert git(context.repository, "diff", "--name-only", "main", branch) == "docs/new.md\n"
        context.assert_tidy()


def test_a_change_that_rests_on_local_changes_is_no_commit(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        (context.repository / "notes.txt").write_text("a line of mine\n")
        context.agent.script(plays(GOOD, {"implement": [append("notes.txt", "the agent's\n")]}))
        config = {"checkout_mode": "copy", "clean_before": False}
        done = context.ask(workspace=config, task_prompt="Write a line.")
        done.failed("E_APPLY_FAILED", 9, "depends on uncommitted changes")
        assert context.branches() == ["main"]
        assert git(context.repository, "diff", "--name-only").split() == ["notes.txt"]


def test_one_after_another_have_branches_of_their_own(tmp_path: Path) -> None:
    """The branch and the folder of an earlier one are there, as test_in_a_job.py sees them made."""
    with delegations(tmp_path) as context:
        git(context.repository, "branch", "nightshift/4711")
        (context.context / "nightshift/delegate-4711").mkdir(parents=True)
        job = {"CI_PIPELINE_ID": "4711", "CI_PIPELINE_SOURCE": "web", "GITLAB_USER_LOGIN": "olga"}
        done = context.called(context.payload(), **job)
        assert done.result["git"]["branch"] == "nightshift/4711-2"
        kept = sorted(path.name for path in (context.context / "nightshift").iterdir())
        assert kept == ["delegate-4711", "delegate-4711-2"]
