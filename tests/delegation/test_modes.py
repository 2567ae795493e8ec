"""in_place and clean_after: false: development only, and what they leave."""

from pathlib import Path

from tests.support.agent import append, plays, sh
from tests.support.delegation import DEVELOPMENT, delegations
from tests.support.shop import GOOD, NOTE, refused
from tests.support.trees import assert_same
from tests.support.world import commit, git

IN_PLACE = {"checkout_mode": "in_place"}


def test_in_place_leaves_the_change_uncommitted(tmp_path: Path) -> None:
    with delegations(tmp_path, GOOD, config=DEVELOPMENT) as desk:
        (desk.repository / "own.txt").write_text("untracked\n")
        before = desk.working_tree()
        del desk.env["NIGHTSHIFT_ORCHESTRATOR"]  # development needs no approval
        done = desk.delegate(workspace=IN_PLACE, execution={"test_command_id": "unit"})
        result = done.result
        assert desk.agent.seen[0].cwd == str(desk.repository)
        assert (result["ok"], result["files_changed"]) == (True, ["test_shop.py"]), done
        assert (result["git"]["branch"], result["git"]["dirty"]) == (None, True)
        assert desk.branches() == ["main"]
        assert git(desk.repository, "status", "--porcelain") == " M test_shop.py\n?? own.txt\n"
        assert (desk.repository / "test_shop.py").read_text().endswith(NOTE)
        after = desk.working_tree()
        changed = [name for name in after if after[name] != before.get(name)]
        assert (changed, after.keys()) == (["test_shop.py"], before.keys())
        desk.assert_tidy()


def test_in_place_only_proposed(tmp_path: Path) -> None:
    with delegations(tmp_path, config=DEVELOPMENT) as desk:
        done = desk.ask(workspace=IN_PLACE, execution={"apply_changes": False})
        assert (done.result["ok"], done.result["git"]["dirty"]) == (True, False)
        assert done.result["files_changed"] == ["docs/new.md"]
        desk.assert_untouched()


def test_in_place_on_another_commit(tmp_path: Path) -> None:
    with delegations(tmp_path, config=DEVELOPMENT) as desk:
        done = desk.ask(workspace={**IN_PLACE, "base_ref": "HEAD~1"})
        done.failed("E_CONFIG", 2, "in_place works on what is checked out")
        done = desk.ask(workspace={**IN_PLACE, "branch_name": "mine"})
        done.failed("E_CONFIG", 2, "on no branch")
        desk.assert_untouched()


def test_a_failure_in_place_may_be_left_to_look_at(tmp_path: Path) -> None:
    script = plays(GOOD, {"verify": refused("No.")})
    with delegations(tmp_path, script, config=DEVELOPMENT) as desk:
        desk.env["NIGHTSHIFT_MAX_IMPLEMENT_RETRIES"] = "0"
        done = desk.ask(workspace={**IN_PLACE, "clean_after": False})
        done.failed("E_TEST_FAILED", 8)
        assert (done.result["rollback_performed"], done.result["git"]["dirty"]) == (False, True)
        assert git(desk.repository, "status", "--porcelain") == " M test_shop.py\n"
        git(desk.repository, "checkout", "--", ".")
        assert_same(
            {n: e[:2] for n, e in desk.working_tree().items()},
            {n: e[:2] for n, e in desk.files_before().items()},
        )
        desk.assert_tidy()


def test_the_private_checkout_may_be_kept(tmp_path: Path) -> None:
    implement = [append("test_shop.py", NOTE), sh("echo x > .gitignore")]
    script = plays(GOOD, {"implement": implement, "verify": refused("No.")})
    with delegations(tmp_path, script, config=DEVELOPMENT) as desk:
        (desk.repository / "link").symlink_to("/etc/hostname")
        commit(desk.repository, "Add a link")
        desk.look()
        desk.env["NIGHTSHIFT_MAX_IMPLEMENT_RETRIES"] = "0"
        done = desk.ask(workspace={"clean_after": False})
        done.failed("E_TEST_FAILED", 8)
        assert done.result["rollback_performed"] is False
        [kept] = (desk.desk / "nightshift").iterdir()
        workspace = kept / "workspace"
        assert (workspace / "test_shop.py").read_text().endswith(NOTE)
        assert (workspace / "link").is_symlink()
        assert git(workspace, "status", "--porcelain") == " M .gitignore\n M test_shop.py\n"
        desk.assert_untouched()


def test_an_agent_in_place_does_not_choose_where_results_go(tmp_path: Path) -> None:
    elsewhere = tmp_path / "tmp/elsewhere"
    link = sh(f"mkdir {elsewhere}; ln -s {elsewhere} nightshift")
    script = plays(GOOD, {"implement": [append("docs/new.md", "# New\n"), link]})
    with delegations(tmp_path, script, config=DEVELOPMENT) as desk:
        desk.desk = desk.repository
        done = desk.ask(workspace=IN_PLACE)
        assert list(elsewhere.iterdir()) == []
        assert done.result["ok"] is True, done
        assert Path(done.result["artifacts"]["patch_file"]).is_file()
        assert not (desk.repository / "nightshift").is_symlink()
