"""A night in a repository with Git LFS publishes exactly what ``git add`` makes of the change."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs import need_program
from tests.support.shop import GOOD, NOTE
from tests.support.world import FILES, World, git, world

CONTENT = b"\0\1 a large picture\n" * 50
OID = hashlib.sha256(CONTENT).hexdigest()
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize {len(CONTENT)}\n"
WITH_LFS = {
    **FILES,
    ".gitattributes": "*.png filter=lfs diff=lfs merge=lfs -text\n",
    "logo.png": POINTER,
}


def as_pointers(_shop: World) -> None:
    """What a runner without git-lfs leaves, or with GIT_LFS_SKIP_SMUDGE."""


def smudged(shop: World) -> None:
    """What a runner with git-lfs leaves: the content, its object, filters in the home."""
    need_program("git-lfs")
    stored = shop.checkout / ".git/lfs/objects" / OID[:2] / OID[2:4] / OID
    stored.parent.mkdir(parents=True)
    stored.write_bytes(CONTENT)
    for command in ("lfs install --skip-repo", "lfs checkout"):
        subprocess.run(["git", *command.split()], cwd=shop.checkout, env=shop.env, check=True)
    assert (shop.checkout / "logo.png").read_bytes() == CONTENT


@pytest.mark.parametrize("state", [as_pointers, smudged])
def test_a_night_beside_lfs(tmp_path: Path, state: Callable[[World], None]) -> None:
    with world(tmp_path, GOOD, files=WITH_LFS) as shop:
        state(shop)
        shop.look()
        expected = added(shop, tmp_path / "twin")
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, "")
        [mr] = shop.merge_requests
        bare = shop.project.bare_repository
        assert git(bare, "rev-parse", f"{mr.sha}^{{tree}}") == expected
        assert git(bare, "show", f"{mr.sha}:logo.png") == POINTER
        shop.assert_restored()


def added(shop: World, twin: Path) -> str:
    """The tree of a person who makes the same change."""
    shutil.copytree(shop.checkout, twin, symlinks=True)
    with (twin / "test_shop.py").open("a") as file:
        file.write(NOTE)
    for command in ("add -A", "write-tree"):
        argv = ["git", *command.split()]
        done = subprocess.run(argv, cwd=twin, env=shop.env, check=True, capture_output=True)
    return done.stdout.decode()
