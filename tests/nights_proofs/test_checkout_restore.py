"""The checkout between attempts and at the end, compared whole, whatever an agent did to it."""

import json
import os
import re
import shutil
from pathlib import Path

from gitlab_nightshift.registry.categories import FALLBACK_ORDER
from tests.support.agent import Play, Seen, answer, plays, sh
from tests.support.shop import GOOD, PASSED, refused
from tests.support.world import FILES, World, git, world

UNCOVER_FAILS = """
import pathlib, shutil
from gitlab_nightshift.repository import checkout_restore
from tests.support.trees import wait_for

def fails(aside):
    def written():
        return list(pathlib.Path("{tmp}").glob("nightshift-*/results/bundle/bundle.json"))

    wait_for(written, "the bundle")
    shutil.copytree(written()[0].parent, "{kept}")
    raise PermissionError(13, "Permission denied", str(aside.real_git))

checkout_restore.unmask_git = fails
"""
"""What a test changes of the program."""
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


EACH = len(MESSES) // len(FALLBACK_ORDER)


def script() -> dict[str, Play]:
    """Each mess instead of a change, in every category some of them; all of a category beside a
    change, in Verify, and one in Analyze.

    The last attempt of the last category passes; its MR bead makes a mess as well.
    """
    beads: dict[str, Play] = {"mr": [sh(MESSES["everything deleted"]), *GOOD["mr"]]}
    messes = [*MESSES.values()]
    for first, category in enumerate(FALLBACK_ORDER):
        # Not several in a row that change no file: the same failure twice ends a category.
        some = [sh(mess) for mess in messes[first :: len(FALLBACK_ORDER)]]
        beads[f"analyze-{category}"] = [some[0], *GOOD["analyze"]]
        beads |= {f"implement-{category}-{n}": [mess] for n, mess in enumerate(some, 1)}
        beads |= {f"verify-{category}-{n}": refused("No" + n * "!") for n in range(1, EACH + 1)}
        beads[f"implement-{category}-{EACH + 1}"] = GOOD["implement"]
        beads[f"verify-{category}-{EACH + 1}"] = [*some, *refused("Again no.")]
    beads[f"verify-{FALLBACK_ORDER[-1]}-{EACH + 1}"] = [*some, answer(PASSED)]
    return beads


def test_each_bead_starts_from_the_same_tree(tmp_path: Path) -> None:
    with world(tmp_path, script()) as shop:
        shop.agent.ask_git()
        real = (shop.checkout / ".git" / "config").read_text()
        assert "remote" in real and shop.env["CI_JOB_TOKEN"] not in real
        ignored = shop.checkout / ".git" / "info" / "exclude"
        ignored.parent.mkdir(exist_ok=True)
        ignored.write_text("kept/\n")
        (shop.checkout / "kept").mkdir(mode=0o750)
        (shop.checkout / "kept" / "cache").write_text("from before_script")
        (shop.checkout / "kept" / "second").write_text("too")
        (shop.checkout / "installed").write_text("by before_script")
        shop.look()
        done = shop.nightshift("run", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES=str(EACH))

        assert (done.exit_status, done.stderr) == (0, "")
        first = shop.agent.seen[0]
        assert {"kept/cache", "installed", "shop.py"} <= set(first.tree)
        implements = [bead for bead in shop.agent.seen if bead.bead in ("analyze", "implement")]
        assert len(implements) == len(FALLBACK_ORDER) * (EACH + 2)
        assert [bead.name for bead in implements if unlike(bead, first, [], shop.sha)] == []
        changed = [bead for bead in shop.agent.seen if changes_the_test(bead)]
        assert len(changed) == len(FALLBACK_ORDER) + 1
        assert [b.name for b in changed if unlike(b, first, ["test_shop.py"], shop.sha)] == []
        assert_own_git(shop)
        [mr] = shop.merge_requests
        bare = shop.project.bare_repository
        assert git(bare, "diff", "--name-status", shop.sha, mr.sha) == "M\ttest_shop.py\n"
        shop.assert_restored()


def changes_the_test(bead: Seen) -> bool:
    """Whether it is a Verify of the change that is none of the messes, or the MR bead."""
    return bead.bead == "mr" or (bead.bead == "verify" and bead.name.endswith(f"-{EACH + 1}"))


def unlike(bead: Seen, first: Seen, changed: list[str], head: str) -> bool:
    """Whether a bead saw anything else than the first one but for these changed files."""
    names = bead.tree.keys() | first.tree.keys()
    different = sorted(name for name in names if bead.tree.get(name) != first.tree.get(name))
    status = "".join(f" M {name}\n" for name in changed) + "?? installed\n"
    return (different, bead.git_status, bead.head) != (changed, status, head)


def assert_own_git(shop: World) -> None:
    """The beads' git has a configuration of its own, without a credential and a remote's URL."""
    for bead in shop.agent.seen:
        assert bead.git_config.startswith("[core]\n")
        assert not re.search("include|credential|url", bead.git_config)


def test_the_throw_away_git_is_each_beads_own(tmp_path: Path) -> None:
    """What an agent plants in its .git is never met by the next one, nor by verify_commands; and
    what these leave is no part of the change."""
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
            "implement": [*GOOD["implement"], sh(plant)],
            "verify": [sh(plant), answer(PASSED)],
        },
    )
    commands = [
        *("git diff --quiet --exit-code -- shop.py", "git status"),
        *("cp shop.py built.py", "cp -r docs build"),
    ]
    config = f"verify_commands: {json.dumps(commands)}\n"
    with world(tmp_path, scripts, config=config, layout="url") as shop:
        real = (shop.checkout / ".git" / "config").read_text()
        assert "remote" in real and shop.env["CI_JOB_TOKEN"] in real
        shop.ends(0, "run")
        assert shop.result["outcome"] == "MR_CREATED"
        for bead in shop.agent.seen:
            assert "planted" not in bead.git_config
        assert_own_git(shop)
        assert not planted.exists()
        assert not {"built.py", "build"} & set(shop.agent.seen[0].tree)
        [mr] = shop.merge_requests
        names = git(shop.project.bare_repository, "diff", "--name-only", shop.sha, mr.sha)
        assert names == "test_shop.py\n"


def test_a_checkout_that_cannot_be_put_back_costs_no_night(tmp_path: Path) -> None:
    """What is to be published was kept before, and is published once the checkout is mended."""
    with world(tmp_path, GOOD) as shop:
        shop.patch = UNCOVER_FAILS.format(tmp=shop.folder / "tmp", kept=shop.folder / "kept")
        assert shop.nightshift("run").exit_status == 12
        shop.patch = ""
        kept = shop.folder / "kept"
        assert json.loads((kept / "bundle.json").read_text())["outcome"] == "MR_READY"
        assert (kept / "change.patch").read_bytes().startswith(b"diff --git a/test_shop.py")
        warnings = [note["text"] for note in shop.list_events("note") if note["warning"]]
        assert ["the real .git is still in" in text for text in warnings] == [True]
        assert shop.nightshift("plan").exit_status == 0
        shutil.copytree(kept, shop.checkout / "nightshift/bundle")  # the job's artifact
        assert shop.nightshift("publish", "nightshift/bundle").exit_status == 0
        assert shop.result["outcome"] == "MR_CREATED"
        assert len(shop.merge_requests) == 1
        shop.assert_restored()


def test_a_blob_whose_line_ends_git_would_convert(tmp_path: Path) -> None:
    """Git calls it modified, or not, by the second in which it was checked out."""
    with world(tmp_path, GOOD, files={**FILES, "win.txt": b"one\r\ntwo\r\n"}) as shop:
        (shop.checkout / ".git/info").mkdir(exist_ok=True)
        (shop.checkout / ".git/info/attributes").write_text("*.txt text eol=crlf\n")
        os.utime(shop.checkout / "win.txt", (1, 1))
        assert "M win.txt" in git(shop.checkout, "status", "--porcelain")
        shop.look()
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert shop.bundle["proposal"]["change"]["files"] == ["test_shop.py"]
        shop.assert_restored()
