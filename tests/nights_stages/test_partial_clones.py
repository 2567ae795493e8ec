"""Partial clones: a night on one, or one line that names the filter; nothing is fetched for it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.shop import GOOD
from tests.support.world import World, git, world

ADVICE = (
    "this clone (--filter={}) lacks files or folders of this commit or an earlier one, and nothing"
    " is fetched here: clone without the filter (in CI it is in GIT_FETCH_EXTRA_FLAGS or"
    " GIT_CLONE_EXTRA_FLAGS), or have git fetch them before: git log -p -20 > /dev/null"
)


@contextmanager
def partial(folder: Path, left_out: str) -> Iterator[World]:
    """A night's checkout by ``git clone --filter``, whose origin is GitLab's."""
    with world(folder, GOOD) as shop:
        bare = shop.project.bare_repository
        for name in ("allowFilter", "allowAnySHA1InWant"):
            git(bare, "config", f"uploadpack.{name}", "true")
        subprocess.run(["rm", "-rf", shop.checkout], check=True)
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        source, place = f"file://{bare}", str(shop.checkout)
        asked = ["git", "clone", "-q", f"--filter={left_out}", source, place]
        subprocess.run(asked, env=env, check=True)
        shop.look()
        yield shop


def test_a_night_needs_no_blobs_of_earlier_commits(tmp_path: Path) -> None:
    with partial(tmp_path, "blob:none") as shop:
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert shop.result["outcome"] == "MR_CREATED"
        shop.assert_restored()


def test_trees_that_a_night_needs_are_asked_for_before_it_spends(tmp_path: Path) -> None:
    with partial(tmp_path, "tree:0") as shop:
        advice = ADVICE.format("tree:0")
        done = shop.nightshift("run")
        shop.assert_nothing_spent(done, 2, f"E_CONFIG · {advice}"[:300])
        assert shop.result["reason"] == advice
        done = shop.nightshift("plan")
        shop.assert_nothing_spent(done, 2, f"nightshift: E_CONFIG: {advice}")
        assert advice in shop.nightshift("doctor").stdout

        git(shop.checkout, "log", "-p", "-20")  # as the line says
        shop.look()
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert shop.result["outcome"] == "MR_CREATED"
        shop.assert_restored()


@pytest.mark.parametrize("left_out", ["blob:none", "tree:0"])
@pytest.mark.parametrize("revision", ["HEAD", "HEAD~3"])
def test_a_check_names_the_filter(tmp_path: Path, left_out: str, revision: str) -> None:
    with partial(tmp_path, left_out) as shop:
        done = shop.nightshift("check", revision)
        advice = ADVICE.format(left_out)
        said = f"nightshift: E_CONFIG: the change cannot be read: {advice}\n"
        assert (done.exit_status, done.stderr) == (2, said)
        shop.assert_restored()
        git(shop.checkout, "log", "-p", "-20")
        done = shop.nightshift("check", revision)
        assert "E_CONFIG" not in done.stderr, done


def test_git_is_allowed_no_protocol_for_it(tmp_path: Path) -> None:
    """The control: before 2.45 git would fetch what it lacks from wherever origin is."""
    with partial(tmp_path, "tree:0") as shop:
        before = sorted((shop.checkout / ".git/objects/pack").iterdir())
        assert shop.nightshift("check", "HEAD").exit_status == 2
        assert sorted((shop.checkout / ".git/objects/pack").iterdir()) == before
        shop.patch = "from gitlab_nightshift.repository import git; "
        shop.patch += (
            "git._ENVIRONMENT.pop('GIT_ALLOW_PROTOCOL'); git._ENVIRONMENT.pop('GIT_NO_LAZY_FETCH')"
        )
        shop.nightshift("plan")
        assert sorted((shop.checkout / ".git/objects/pack").iterdir()) != before
