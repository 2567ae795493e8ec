"""The checkout between attempts and at the end, compared whole, whatever an agent did to it."""

from pathlib import Path

import pytest

from tests.support.agent import answer, append, plays, sh
from tests.support.shop import GOOD, PASSED, TEST, refused
from tests.support.world import git, world

MESSES = {
    "everything deleted": "rm -rf -- * .gitignore",
    "written over": "for f in *.py run.sh; do echo bad > $f; done; echo more >> .gitignore",
    "same size, same time": (
        "cp -p shop.py $TMPDIR/t; sed -i s/sum/SUM/ shop.py; touch -r $TMPDIR/t shop.py"
    ),
    "modes": "chmod 000 shop.py; chmod 777 test_shop.py; chmod -x run.sh; chmod 500 docs",
    "kinds": "rm shop.py; mkdir shop.py; rm -r docs; echo x > docs; ln -sf /etc/passwd run.sh",
    "new things": (
        "ln -sf . loop; ln -s /nowhere nowhere; mkdir -p build/deep __pycache__ a/b; "
        "echo x > build/deep/x; echo x > a.pyc; mkfifo pipe a/b/pipe; "
        "touch -- '-rf' ' ' \"$(printf 'new\\nline')\" \"$(printf 'byte\\377')\" '$(id)' '*'"
    ),
    "links": "ln shop.py twin.py; rm notes.txt; ln -s shop.py notes.txt",
    "untracked and ignored that were there": (
        "echo changed > kept/cache; rm kept/second; echo x > kept/third; "
        "rm installed; mkdir installed; echo x > installed/x"
    ),
    "closed folders": "mkdir -p shut/in; echo x > shut/in/x; chmod 000 shut/in; chmod 000 shut",
    "git used": (
        "git config user.name x; git config user.email x@y; git add -A; git commit -qm x "
        "--allow-empty; git checkout -qb other; git tag t; git stash; git rm -q shop.py"
    ),
    "git wrecked": "rm -rf .git/objects .git/index; echo x > .git/HEAD; mkdir .git/hooks/x",
    "git gone": "rm -rf .git",
    "git a link": "rm -rf .git; ln -s /tmp .git",
    "git a file": "rm -rf .git; echo 'gitdir: /tmp' > .git",
    "git closed": "chmod 000 .git",
}


@pytest.mark.parametrize("mess", MESSES.values(), ids=MESSES.keys())
def test_each_bead_starts_from_the_same_tree(tmp_path: Path, mess: str) -> None:
    scripts = plays(
        GOOD,
        {
            "analyze": [sh(mess), *GOOD["analyze"]],
            "implement-tests-1": [sh(mess)],
            "implement-tests-2": [append("test_shop.py", TEST)],
            "verify-tests-1": [sh(mess), *refused("No.")],
            "verify-tests-2": [sh(mess), *refused("Again no.")],
            "implement-tests-3": [append("test_shop.py", TEST)],
            "verify-tests-3": [sh(mess), answer(PASSED)],
            "mr": [sh(mess), *GOOD["mr"]],
        },
    )
    with world(tmp_path, scripts) as shop:
        ignored = shop.checkout / ".git" / "info" / "exclude"
        ignored.parent.mkdir(exist_ok=True)
        ignored.write_text("kept/\n")
        (shop.checkout / "kept").mkdir(mode=0o750)
        (shop.checkout / "kept" / "cache").write_text("from before_script")
        (shop.checkout / "kept" / "second").write_text("too")
        (shop.checkout / "installed").write_text("by before_script")
        shop.look()
        done = shop.nightshift("run")

        assert (done.exit_status, done.stderr) == (0, "")
        first = shop.agent.seen[0]
        assert {"kept/cache", "installed", "shop.py"} <= set(first.tree)
        for bead in shop.agent.seen:
            if bead.bead == "implement":
                assert (bead.name, bead.tree) == (bead.name, first.tree)
                assert (bead.git_status, bead.head) == ("?? installed\n", shop.sha)
        for bead in shop.agent.seen[-2:]:
            changed = {name for name in bead.tree if bead.tree[name] != first.tree.get(name)}
            assert changed == {"test_shop.py"}
            assert bead.git_status == " M test_shop.py\n?? installed\n"
        [mr] = shop.merge_requests
        bare = shop.project.bare_repository
        assert git(bare, "diff", "--name-status", shop.sha, mr.sha) == "M\ttest_shop.py\n"
        shop.assert_put_back()


def test_the_throw_away_git_is_each_beads_own(tmp_path: Path) -> None:
    """What an agent plants in its .git is never met by the next one, nor by verify_commands."""
    planted = tmp_path / "planted"
    plant = (
        f"git config core.fsmonitor 'touch {planted}; false'; "
        f"printf '#!/bin/sh\\ntouch {planted}' > .git/hooks/post-checkout; "
        f"git config alias.status '!touch {planted}'; git config diff.external 'touch {planted}'"
    )
    scripts = plays(
        GOOD,
        {
            "analyze": [sh(plant), *GOOD["analyze"]],
            "implement": [append("test_shop.py", TEST), sh(plant)],
            "verify": [sh(plant), answer(PASSED)],
        },
    )
    config = "verify_commands: ['git diff --quiet --exit-code -- shop.py', 'git status']\n"
    with world(tmp_path, scripts, config=config) as shop:
        done = shop.nightshift("run")
        assert done.exit_status == 0
        assert shop.result["outcome"] == "MR_CREATED"
        for bead in shop.agent.seen:
            assert not [row for row in bead.git_config.splitlines() if "planted" in row]
        assert not planted.exists()
        shop.assert_put_back()


def test_the_agents_git_has_no_credential_and_no_remote(tmp_path: Path) -> None:
    """In both ways in which a runner leaves them."""
    for layout in ("url", "include"):
        folder = tmp_path / layout
        with world(folder, GOOD, layout=layout) as shop:
            real = (shop.checkout / ".git" / "config").read_text()
            assert ("remote" in real, shop.env["CI_JOB_TOKEN"] in real) == (True, layout == "url")
            assert shop.nightshift("run").exit_status == 0
            for bead in shop.agent.seen:
                own = [row for row in bead.git_config.splitlines() if "file:.git/config" in row]
                assert own
                assert not [row for row in own if "remote" in row or "include" in row]
            assert [mr.iid for mr in shop.merge_requests] == [1]
            shop.assert_put_back()


def test_what_verify_commands_leave_is_no_part_of_the_change(tmp_path: Path) -> None:
    """Neither the first bead sees it after the baseline, nor does a reviewer."""
    config = "verify_commands: ['cp shop.py built.py', 'cp -r docs build']\n"
    with world(tmp_path, GOOD, config=config) as shop:
        assert shop.nightshift("run").exit_status == 0
        assert not {"built.py", "build"} & set(shop.agent.seen[0].tree)
        [mr] = shop.merge_requests
        names = git(shop.project.bare_repository, "diff", "--name-only", shop.sha, mr.sha)
        assert names == "test_shop.py\n"
        shop.assert_put_back()
