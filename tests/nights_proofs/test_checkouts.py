"""Checkouts and repositories of other kinds."""

import shutil
from pathlib import Path

from tests.support.agent import answer
from tests.support.shop import FOUND, GOOD, SELECTED
from tests.support.world import ANYWHERE, FILES, git, world


def test_no_commit_and_no_checkout_at_all(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        shutil.rmtree(shop.checkout)
        git(tmp_path, "init", "-q", str(shop.checkout))
        shop.look()
        done = shop.nightshift("run", CI_COMMIT_SHA="")
        shop.assert_nothing_spent(done, 2, "E_CONFIG", "no commit")

        shutil.rmtree(shop.checkout)
        shop.checkout.mkdir()
        shop.look()
        shop.assert_nothing_spent(
            shop.nightshift("run"), 2, "is not in a git checkout: run this in"
        )


def test_a_git_worktree_of_a_repository_with_one_commit(tmp_path: Path) -> None:
    """Its .git is a file that names a folder elsewhere. Its one commit has touched every file: that
    is no reason to leave them all alone."""
    with world(tmp_path, GOOD, commits=1, depth=1) as shop:
        main = shop.checkout.with_name("main.tmp")
        shop.checkout.rename(main)
        git(main, "worktree", "add", "-q", "--detach", str(shop.checkout))
        shop.look()
        outside = {str(p): p.read_bytes() for p in main.rglob("*") if p.is_file()}
        shop.agent.ask_git()
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, "")
        assert len(shop.merge_requests) == 1
        assert (shop.checkout / ".git").is_file()
        assert {str(p): p.read_bytes() for p in main.rglob("*") if p.is_file()} == outside
        assert git(shop.checkout, "status", "--porcelain") == ""
        assert shop.agent.seen[0].git_status == ""


def test_a_history_that_is_too_short_is_fetched_or_told(tmp_path: Path) -> None:
    """By the token, into a repository of its own; the checkout stays as it is."""
    with world(tmp_path, GOOD, depth=3) as shop:
        told = "avoid_recent_commits: the history here has 2 of the last 10 commits; files"
        assert told in shop.nightshift("plan", GITLAB_TOKEN="").log
        done = shop.nightshift("plan", NIGHTSHIFT_AVOID_RECENT_COMMITS="12")
        assert told.partition(":")[0] not in done.log
        assert shop.product("plan.json")["recent_files"] == ["notes.txt"]
        shop.gitlab.fail_next("POST", "/git-upload-pack", 500, "gone", times=9)
        assert told in shop.nightshift("plan").log
        shop.assert_restored()


def test_names_of_every_kind_in_a_checkout_of_depth_one(tmp_path: Path) -> None:
    """In the repository and in the change: spaces, line breaks, bytes that are not UTF-8. The run
    starts in a folder within the checkout."""
    names = ["a b.txt", "line\nbreak.txt", "byte\udcff.txt", "-rf", "tab\there", "ü.txt", "'\"$x"]
    new = [f"new {name}" for name in names]
    files = {**FILES, **dict.fromkeys(names, "old\n")}
    change = [("append", name, "more\n") for name in names]
    scripts = {**GOOD, "implement": [*change, *(("write", name, "new\n") for name in new)]}
    scripts["analyze"] = [answer({**FOUND, "selected": {**SELECTED, "files": ["a b.txt"]}})]
    with world(tmp_path, scripts, files=files, config=ANYWHERE, depth=1) as shop:
        top, shop.checkout = shop.checkout, shop.checkout / "docs"
        done = shop.nightshift("run")
        shop.checkout = top
        assert (done.exit_status, done.stderr) == (0, "")
        assert shop.agent.seen[0].cwd == str(top)
        assert "avoid_recent_commits: " not in done.log
        assert shop.product("plan.json")["recent_files"] == ["notes.txt"]
        [mr] = shop.merge_requests
        bare = shop.project.bare_repository
        assert git(bare, "rev-list", "--count", mr.sha) == "14\n"
        listed = git(bare, "diff", "--name-status", "-z", shop.sha, mr.sha).split("\0")
        assert set(zip(listed[1::2], listed[::2], strict=False)) == {
            *((name, "M") for name in names),
            *((name, "A") for name in new),
        }
        for name in names:
            assert git(bare, "show", f"{mr.sha}:{name}") == "old\nmore\n"
        assert "`byte\\xff.txt`" in (mr.description or "")
        shop.assert_restored()
