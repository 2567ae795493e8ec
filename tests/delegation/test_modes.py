"""``in_place`` and ``clean_after: false``: for development only, and what they leave."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.run.supervisor import delegation_run
from gitlab_nightshift.run.supervisor.delegation_run import WorkResult, run_agent
from gitlab_nightshift.system import private_folders
from tests.support.agent import append, plays, sh
from tests.support.delegation import DEVELOPMENT, delegations
from tests.support.shop import GOOD, NOTE, refused
from tests.support.trees import assert_same
from tests.support.world import commit, git

IN_PLACE = {"checkout_mode": "in_place"}


def test_in_place_leaves_the_change_uncommitted(tmp_path: Path) -> None:
    with delegations(tmp_path, GOOD, config=DEVELOPMENT) as context:
        (context.repository / "own.txt").write_text("untracked\n")
        before = context.working_tree()
        del context.env["NIGHTSHIFT_ORCHESTRATOR"]  # development needs no approval
        done = context.delegate(workspace=IN_PLACE, execution={"test_command_id": "unit"})
        result = done.result
        assert context.agent.seen[0].cwd == str(context.repository)
        assert (result["ok"], result["files_changed"]) == (True, ["test_shop.py"]), done
        assert (result["git"]["branch"], result["git"]["dirty"]) == (None, True)
        assert context.branches() == ["main"]
        assert git(context.repository, "status", "--porcelain") == " M test_shop.py\n?? own.txt\n"
        assert (context.repository / "test_shop.py").read_text().endswith(NOTE)
        after = context.working_tree()
        changed = [name for name in after if after[name] != before.get(name)]
        assert (changed, after.keys()) == (["test_shop.py"], before.keys())
        context.assert_tidy()


def test_git_ignores_what_a_delegation_keeps(tmp_path: Path) -> None:
    with delegations(tmp_path, GOOD) as context:
        git(context.context, "init", "-q")
        assert context.ask().result["ok"]
        kept = [path.name for path in context.context.glob("nightshift/delegate-*/*")]
        assert "events.jsonl" in kept
        assert git(context.context, "status", "--porcelain") == ""


def test_in_place_only_proposed(tmp_path: Path) -> None:
    with delegations(tmp_path, config=DEVELOPMENT) as context:
        done = context.ask(workspace=IN_PLACE, execution={"apply_changes": False})
        assert (done.result["ok"], done.result["git"]["dirty"]) == (True, False)
        assert done.result["files_changed"] == ["docs/new.md"]
        context.assert_untouched()


def test_in_place_on_another_commit(tmp_path: Path) -> None:
    with delegations(tmp_path, config=DEVELOPMENT) as context:
        done = context.ask(workspace={**IN_PLACE, "base_ref": "HEAD~1"})
        done.failed("E_CONFIG", 2, "in_place works on what is checked out")
        done = context.ask(workspace={**IN_PLACE, "branch_name": "mine"})
        done.failed("E_CONFIG", 2, "on no branch")
        context.assert_untouched()


def test_a_failure_in_place_may_be_left_to_look_at(tmp_path: Path) -> None:
    script = plays(GOOD, {"verify": refused("No.")})
    with delegations(tmp_path, script, config=DEVELOPMENT) as context:
        context.env["NIGHTSHIFT_MAX_IMPLEMENT_RETRIES"] = "0"
        done = context.ask(workspace={**IN_PLACE, "clean_after": False})
        done.failed("E_TEST_FAILED", 8)
        assert (done.result["rollback_performed"], done.result["git"]["dirty"]) == (False, True)
        assert git(context.repository, "status", "--porcelain") == " M test_shop.py\n"
        git(context.repository, "checkout", "--", ".")
        assert_same(
            {n: e[:2] for n, e in context.working_tree().items()},
            {n: e[:2] for n, e in context.files_before().items()},
        )
        context.assert_tidy()


def test_the_private_checkout_may_be_kept(tmp_path: Path) -> None:
    implement = [append("test_shop.py", NOTE), sh("echo x > .gitignore")]
    script = plays(GOOD, {"implement": implement, "verify": refused("It tests nothing.")})
    with delegations(tmp_path, script, config=DEVELOPMENT) as context:
        (context.repository / "link").symlink_to("/etc/hostname")
        commit(context.repository, "Add a link")
        context.look()
        context.env["NIGHTSHIFT_MAX_IMPLEMENT_RETRIES"] = "0"
        done = context.ask(workspace={"clean_after": False})
        done.failed("E_TEST_FAILED", 8, "It tests nothing.")
        assert done.result["test_result"] == "skipped"
        assert done.result["rollback_performed"] is False
        [kept] = (context.context / "nightshift").iterdir()
        workspace = kept / "workspace"
        assert (workspace / "test_shop.py").read_text().endswith(NOTE)
        assert (workspace / "link").is_symlink()
        assert git(workspace, "status", "--porcelain") == " M .gitignore\n M test_shop.py\n"
        context.assert_untouched()


def test_a_kept_checkout_has_nothing_of_works_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code planted in work may write there: who looks at it would run what that names."""
    made = list[Path]()

    def run_and_plant(*given: Any) -> WorkResult:
        done = run_agent(*given)
        [config] = made[0].glob("*/.git/config")
        config.write_text(config.read_text() + "[core]\n\tfsmonitor = /bin/evil\n")
        return done

    @contextlib.contextmanager
    def open_scratch(*given: Any) -> Iterator[Path]:
        with private_folders.open_scratch_folder(*given) as scratch:
            made.append(scratch)
            yield scratch

    monkeypatch.setattr(delegation_run, "open_scratch_folder", open_scratch)
    monkeypatch.setattr(delegation_run, "run_agent", run_and_plant)
    script = plays(GOOD, {"implement": [append("test_shop.py", NOTE)], "verify": refused("No.")})
    with delegations(tmp_path, script, config=DEVELOPMENT) as context:
        context.env["NIGHTSHIFT_MAX_IMPLEMENT_RETRIES"] = "0"
        context.ask(workspace={"clean_after": False}).failed("E_TEST_FAILED", 8)
        [kept] = (context.context / "nightshift").iterdir()
        assert "evil" not in (kept / "workspace/.git/config").read_text()
        assert git(kept / "workspace", "status", "--porcelain") == " M test_shop.py\n"


def test_an_agent_in_place_does_not_choose_where_results_go(tmp_path: Path) -> None:
    elsewhere = tmp_path / "tmp/elsewhere"
    link = sh(f"mkdir {elsewhere}; ln -s {elsewhere} nightshift")
    script = plays(GOOD, {"implement": [append("docs/new.md", "# New\n"), link]})
    with delegations(tmp_path, script, config=DEVELOPMENT) as context:
        context.context = context.repository
        done = context.ask(workspace=IN_PLACE)
        assert list(elsewhere.iterdir()) == []
        assert done.result["ok"] is True, done
        assert Path(done.result["artifacts"]["patch_file"]).is_file()
        assert not (context.repository / "nightshift").is_symlink()
