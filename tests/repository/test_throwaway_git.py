"""In a sandbox the throw-away .git is mounted over the real one, which is not moved."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gitlab_nightshift.repository import checkout_restore, prepared_checkout
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.probes import ProbeTargets
from gitlab_nightshift.sandbox.proof import prove
from gitlab_nightshift.sandbox.tier_choice import choose
from gitlab_nightshift.sandbox.tiers import Confinement, Tier
from tests.repository.conftest import Box
from tests.repository.tools import die, fork, git, gone, listing, wait_end, write
from tests.sandbox.tools import PYTHON, Done, Room, open_folder
from tests.support.programs import need_program

SECRET = "X-Secret: of-the-job"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    need_program("bwrap")
    with open_folder() as folder:
        yield choose(Tier.NAMESPACES, folder)


def confined(checkout: Checkout, sandbox: Sandbox, scratch: Path) -> Room:
    for name in ("home", "tmp"):
        (scratch / name).mkdir(parents=True, exist_ok=True)
    writable = (checkout.path, scratch)
    confinement = Confinement(checkout.path, writable, checkout.objects, mounts=checkout.mounts)
    return Room(sandbox, scratch.parent, confinement)


def run(checkout: Checkout, sandbox: Sandbox, scratch: Path, line: str) -> Done:
    return confined(checkout, sandbox, scratch).shell(line)


def test_git_works_in_the_throwaway_and_the_real_one_stays(
    box: Box, sandbox: Sandbox, tmp_path: Path
) -> None:
    git(box.root, "config", "http.extraHeader", SECRET)
    before = listing(box.root, git_too=True)
    inside = partial(run, sandbox=sandbox, scratch=tmp_path / "scratch")
    with box.open(use_mounts=True) as checkout:
        assert not box.beside - {"shop.nightshift"}
        line = (
            'set -e; test -z "$(git status --porcelain)"; git log --format=%s; git config --list;'
            "echo agent > README.md; git -c user.name=a -c user.email=b commit -qam mine;"
            "git gc -q; mkdir .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit;"
            "git diff --name-only HEAD~1"
        )
        done = inside(checkout, line=line)
        assert (done.exit_status, done.stderr.count("fatal")) == (0, 0), done.stderr
        assert "first" in done.stdout and "README.md" in done.stdout
        assert "core.bare" in done.stdout and "of-the-job" not in done.stdout
        assert listing(box.root / ".git", git_too=True) == {
            path.removeprefix(b".git/"): entry
            for path, entry in before.items()
            if path.startswith(b".git/") and path != b".git/"
        } | {b"": before[b".git/"]}
        assert [file.path for file in checkout.capture().files] == ["README.md"]
        assert checkout.restore() == ()
        again = inside(checkout, line="git status --porcelain; git log --oneline; ls .git/hooks")
        assert len(again.stdout.splitlines()) == 1, "a throw-away as the first one had it"
        gone_too = inside(checkout, line="rm -rf .git; mv .git x; echo bad > README.md; ls .git")
        assert gone_too.stdout == ""
    assert listing(box.root, git_too=True) == before
    assert not box.beside


def test_the_proof_recognizes_the_real_git_by_its_inode(
    box: Box, sandbox: Sandbox, tmp_path: Path
) -> None:
    """The control is the same without the mount."""
    with box.open(use_mounts=True) as checkout:
        room = confined(checkout, sandbox, tmp_path / "scratch")
        targets = ProbeTargets(secrets=tuple(path for path in checkout.secrets if path.exists()))
        assert targets.secrets
        proof = prove(sandbox, room.confinement, targets)
        assert proof.held, proof.holes or proof.failure
        config = f"read {box.root}/.git/config"
        [found] = [f for f in proof.findings if f.name == config]
        assert found.how == "another file is in its place"
        bare = Confinement(box.root, room.confinement.writable)
        names = [hole.partition(" (")[0] for hole in prove(sandbox, bare, targets).holes]
        assert config in names


UNMOUNT = (
    "import ctypes; print(ctypes.CDLL(None).umount2(b'.git', 2)); print(open('.git/config').read())"
)


def test_the_throwaway_cannot_be_unmounted(box: Box, sandbox: Sandbox, tmp_path: Path) -> None:
    """The control does the same with the rights to unmount."""
    git(box.root, "config", "http.extraHeader", SECRET)
    with box.open(use_mounts=True) as checkout:
        done = confined(checkout, sandbox, tmp_path / "scratch").python(UNMOUNT)
        assert done.stdout.startswith("-1\n[core]") and SECRET not in done.stdout
        if os.geteuid() != 0:
            pytest.skip("the control needs root")
        [shown] = [mount.source for mount in checkout.mounts if mount.writable]
        script = (
            f"mount --bind {shown} .git && exec {PYTHON} -c '{UNMOUNT.replace(chr(39), chr(34))}'"
        )
        argv = ["unshare", "--mount", "sh", "-c", script]
        out = subprocess.run(argv, cwd=box.root, capture_output=True, text=True, check=True).stdout
        assert out.startswith("0\n") and SECRET.partition(": ")[2] in out


def killed(box: Box, when: str) -> None:
    """A night that is killed after changing the tree; to be called in a process of its own."""
    with pytest.MonkeyPatch.context() as patch:
        if when == "saving":
            patch.setattr(prepared_checkout, "write_saved", die)
        with box.open(use_mounts=True):
            write(box.root, "README.md", "agent\n")
            write(box.root, "new", "agent")
            gone(box.root, "src/app.py")
            if when == "working":
                die()
            patch.setattr(checkout_restore, "restore_folder", die)


def test_the_next_start_restores_the_tree_of_a_killed_night(box: Box) -> None:
    before = listing(box.root, git_too=True)
    for when in ("saving", "working", "leaving"):
        assert wait_end(fork(partial(killed, box, when))) == -signal.SIGKILL, when
        assert listing(box.root / ".git", git_too=True), when
        assert git(box.root, "rev-parse", "HEAD") == box.base, "it never moved"
        assert box.repair(), when
        assert {**listing(box.root, git_too=True), b"": 0} == {**before, b"": 0}, when
        assert not box.beside and not box.repair(), when


def test_a_tree_that_was_fetched_since_is_left_alone(box: Box) -> None:
    assert wait_end(fork(partial(killed, box, "working"))) == -signal.SIGKILL
    git(box.root, "fetch", "-q", str(box.root), "HEAD")
    git(box.root, "checkout", "-fq", box.base)
    git(box.root, "clean", "-ffdxq")
    write(box.root, "built", "by before_script")
    before = listing(box.root)
    assert box.repair()
    assert listing(box.root) == before and not box.beside


@pytest.mark.parametrize("kind", ["worktree", "link"])
def test_a_git_that_is_no_folder_is_moved(box: Box, tmp_path: Path, kind: str) -> None:
    outer = tmp_path / "outer" / "shop"
    if kind == "worktree":
        git(box.root, "worktree", "add", "-q", "--detach", str(outer))
    else:
        shutil.copytree(box.root, outer)
        (outer / ".git").rename(tmp_path / "outer" / "real")
        (outer / ".git").symlink_to("../real")
    before = listing(outer, git_too=True)
    with Box(outer, box.private, box.base).open(use_mounts=True) as checkout:
        assert checkout.mounts == ()
        assert git(outer, "status", "--porcelain") == ""
    assert listing(outer, git_too=True) == before
