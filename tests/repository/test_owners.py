"""The checkout belongs to another user while agents work, and to its old owners afterwards."""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.repository import checkout as checkout_module
from gitlab_nightshift.repository import checkout_restore
from gitlab_nightshift.repository.checkout import Checkout, open_checkout
from gitlab_nightshift.repository.owners import OwnershipError
from gitlab_nightshift.sandbox import uid_tier as uid
from gitlab_nightshift.sandbox.tiers import SandboxUser
from tests.repository.conftest import Box, new_repository
from tests.repository.tools import die, fork, git, listing, wait_end, write
from tests.sandbox.tools import open_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def box() -> Iterator[Box]:
    """A box in a folder that other users can enter."""
    with open_folder() as folder:
        root = folder / "builds" / "shop"
        base = new_repository(root)
        root.chmod(0o755)
        (folder / "private").mkdir(mode=0o700)
        yield Box(root, folder / "private", base)


@pytest.fixture
def user() -> Iterator[SandboxUser]:
    identity = uid.reserve_user()
    assert identity
    yield identity
    uid.release_user(identity)


@contextlib.contextmanager
def open_for_user(box: Box, user: SandboxUser) -> Iterator[Checkout]:
    with open_checkout(
        box.root,
        output_dir="nightshift",
        private=box.private,
        search_path=os.environ["PATH"],
        run_id="4711",
        warn=box.warnings.append,
        identity=user,
    ) as checkout:
        yield checkout


def owners(root: Path) -> dict[str, tuple[int, int, int]]:
    """Owner, group and mode of everything, ``.git`` too."""
    found = {}
    for path in (root, *root.rglob("*")):
        status = path.lstat()
        found[str(path.relative_to(root))] = (status.st_uid, status.st_gid, status.st_mode)
    return found


def add_odd_files(box: Box) -> None:
    """Add files of other users, setuid files, hard links and read-only folders."""
    write(box.root, "build/theirs", "another user's")
    os.chown(box.root / "build/theirs", 1234, 4321)
    os.chown(box.root / "src/app.py", 33, 33)
    write(box.root, "build/tool", "#!/bin/sh\n", 0o4755)
    write(box.private, "store", "shared")
    os.link(box.private / "store", box.root / "build/shared")
    write(box.root, "build/twin", "t")
    os.link(box.root / "build/twin", box.root / "build/other-twin")
    (box.root / "build/closed").mkdir(mode=0o500)
    (box.root / "build/group").mkdir()
    (box.root / "build/group").chmod(0o2775)
    (box.root / "build/link").symlink_to("theirs")
    os.lchown(box.root / "build/link", 1234, 4321)
    os.chown(box.root, 1000, 1000)


def as_user(user: SandboxUser, *argv: str, cwd: Path) -> str:
    """Run something as the agents' user; stdout and stderr."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        user=user.uid,
        group=user.gid,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode()


def test_the_user_owns_the_tree_and_all_is_restored(box: Box, user: SandboxUser) -> None:
    add_odd_files(box)
    before, owned = listing(box.root, git_too=True), owners(box.root)
    with open_for_user(box, user) as checkout:
        script = (
            "set -e; echo new > new; mkdir -p made/deep; echo x > made/deep/file; rm README.md;"
            "echo more >> src/app.py; chmod 755 src/app.py; mv src/lib src/moved;"
            "rm build/tool build/link;"
            "echo evil > build/tool; chmod 6755 build/tool; rm build/closed -r; ln -s / root;"
            "git add -A; git -c user.name=a -c user.email=b commit -qm mine; git log --oneline;"
            "git gc -q; git status --porcelain"
        )
        output = as_user(user, "/bin/sh", "-c", script, cwd=box.root)
        assert len(output.splitlines()) == 2, output
        assert not checkout.capture().empty
        assert checkout.restore() == ()
        assert {uid for uid, _, _ in owners(box.root).values()} - {0} == {user.uid}
        again = as_user(user, "/bin/sh", "-c", "echo x >> src/lib/util.py", cwd=box.root)
        assert again == ""
    assert listing(box.root, git_too=True) == before
    assert owners(box.root) == owned
    assert not box.beside
    git(box.root, "-c", "safe.directory=*", "fsck")


def test_an_applied_change_belongs_to_the_user(box: Box, user: SandboxUser) -> None:
    """A formatter among the verify_commands rewrites files in place."""
    with open_for_user(box, user) as checkout:
        script = "echo x > README.md; mkdir -p new/deep; echo x > new/deep/file"
        as_user(user, "/bin/sh", "-c", script, cwd=box.root)
        captured = checkout.capture()
        assert checkout.apply_change(captured) == ()
        output = as_user(
            user, "/bin/sh", "-c", "echo y | tee README.md new/deep/file new/two", cwd=box.root
        )
        assert output == "y\n"
    assert (box.root / "README.md").read_text() == "hello\n"


def test_the_user_cannot_reach_the_real_repository(box: Box, user: SandboxUser) -> None:
    git(box.root, "config", "http.extraHeader", "Authorization: secret-of-the-job")
    git(box.root, "gc", "-q")
    with open_for_user(box, user) as checkout:
        assert checkout.objects == ()
        for secret in checkout.secrets:
            assert secret.exists()
            output = as_user(user, "/bin/cat", str(secret), cwd=box.root)
            assert "Permission denied" in output and "secret-of-the-job" not in output
        shown = as_user(user, "git", "config", "--list", cwd=box.root)
        assert "secret" not in shown and "core.bare" in shown
        script = "for f in $(find .git/objects -type f); do echo x >> $f; chmod 777 $f; done"
        as_user(user, "/bin/sh", "-c", script, cwd=box.root)
        script = "rm -rf .git; mkdir .git; echo planted > .git/config"
        as_user(user, "/bin/sh", "-c", script, cwd=box.root)
        assert checkout.restore() == ()
        assert "first" in as_user(user, "git", "log", "--oneline", cwd=box.root)
    git(box.root, "fsck", "--full")
    assert git(box.root, "status", "--porcelain") == ""


def test_git_does_not_read_the_tree_again(box: Box, user: SandboxUser) -> None:
    os.utime(box.root / "README.md", (1_000_000_000, 1_000_000_000))
    git(box.root, "update-index", "--refresh")
    with open_for_user(box, user):
        (box.root / "README.md").chmod(0)
        output = as_user(user, "git", "diff-files", "--name-only", cwd=box.root)
        assert output == "", "the change of owner looks like an edit"


def test_files_outside_are_safe_from_hard_links(box: Box, user: SandboxUser) -> None:
    """Without fs.protected_hardlinks and Landlock."""
    victim = write(box.private, "victim", "root's own", 0o640)
    before = victim.stat().st_uid, victim.stat().st_mode, victim.read_text()
    with open_for_user(box, user) as checkout:
        shutil.rmtree(box.root / ".git")
        os.link(victim, box.root / ".git")
        (box.root / "README.md").unlink()
        os.link(victim, box.root / "README.md")
        shutil.rmtree(box.root / "src")
        os.link(victim, box.root / "src")
        assert checkout.restore() == ()
        os.link(victim, box.root / "planted")
    assert (victim.stat().st_uid, victim.stat().st_mode, victim.read_text()) == before
    assert git(box.root, "status", "--porcelain") == ""


def test_objects_must_be_readable_for_everybody(box: Box, user: SandboxUser) -> None:
    before = owners(box.root)
    pack = next(path for path in (box.root / ".git/objects").rglob("*") if path.is_file())
    pack.chmod(0o400)
    with (
        pytest.raises(OwnershipError, match="no file that everybody may read"),
        open_for_user(box, user),
    ):
        pass
    pack.chmod(0o444)
    assert owners(box.root) == before and not box.beside


def test_owners_are_restored_if_the_file_system_refuses(
    box: Box, user: SandboxUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Immutable files or NFS may refuse half-way."""
    add_odd_files(box)
    before = owners(box.root)
    real = os.chown

    def chown(path: str | int, owner: int, group: int, **how: object) -> None:
        if path == "util.py" and owner == user.uid:
            raise PermissionError(1, "Operation not permitted", path)
        real(path, owner, group, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "chown", chown)
    with (
        pytest.raises(OwnershipError, match=r"owner of util.py .* \(Operation not permitted"),
        open_for_user(box, user),
    ):
        pass
    assert owners(box.root) == before and not box.beside


# --- after a kill -----------------------------------------------------------------------------


def run_killed_night(box: Box, when: str) -> None:
    """A night that is killed at a point; to be called in a process of its own."""
    user = uid.reserve_user()
    assert user
    write(box.private, "told", f"{user.uid} ")
    real, calls = os.chown, []

    def chown(path: str | int, owner: int, group: int, **how: Any) -> None:
        calls.append(path)
        real(path, owner, group, **how)
        if (when == "giving" and len(calls) == 5) or (when == "giving back" and owner != user.uid):
            die()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "chown", chown)
        if when == "saving":
            patch.setattr(checkout_module, "write_saved", die)
        if when == "uncovered":
            patch.setattr(checkout_restore, "restore_folder", die)
        with open_for_user(box, user):
            script = "echo x > README.md; echo x > new; rm src/app.py build/theirs build/link; "
            script += "mkdir /dev/shm/nightshift-test-$$; " * (when == "working")
            as_user(user, "/bin/sh", "-c", script, cwd=box.root)
            if when == "working":
                argv = ["/bin/sleep", "100"]
                left = subprocess.Popen(
                    argv, user=user.uid, group=user.gid, extra_groups=[], start_new_session=True
                )
                with (box.private / "told").open("a") as told:
                    told.write(str(left.pid))
                die()


def test_the_next_start_restores_the_owners_after_a_kill(box: Box) -> None:
    add_odd_files(box)
    before, owned = listing(box.root, git_too=True), owners(box.root)
    for when in ("giving", "saving", "working", "uncovered", "giving back"):
        assert wait_end(fork(partial(run_killed_night, box, when))) == -signal.SIGKILL, when
        number, *left = map(int, (box.private / "told").read_text().split())
        assert number in {uid for uid, _, _ in owners(box.root).values()}, when
        assert len(left) == (when == "working")
        assert box.repair(), when
        assert owners(box.root) == owned, when
        assert {**listing(box.root, git_too=True), b"": 0} == {**before, b"": 0}, when
        assert not box.beside and not box.repair(), when
        assert [wait_end(pid) for pid in left] == [-signal.SIGKILL] * len(left)
        shared = Path("/dev/shm").iterdir()
        assert not [path for path in shared if path.lstat().st_uid == number], when


def test_only_leftovers_of_reserved_users_are_killed(user: SandboxUser) -> None:
    process = subprocess.Popen(["/bin/sleep", "300"], user=user.uid, extra_groups=[])
    assert uid.clean_up_killed_run(user.uid, user.gid)
    assert process.poll() is None
    assert not uid.clean_up_killed_run(0, 0), "never root's, nor another person's"
    assert not uid.clean_up_killed_run(1000, 1000)
    assert uid.kill_leftovers(user)
    assert process.wait() == -signal.SIGKILL


def test_the_next_start_tries_to_restore_owners_again(
    box: Box, user: SandboxUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_odd_files(box)
    owned = owners(box.root)
    with open_for_user(box, user):
        monkeypatch.setattr(uid, "kill_leftovers", lambda _: False)
        monkeypatch.setattr(uid, "has_leftovers", lambda _: True)
    monkeypatch.undo()
    assert ["give them back by chown" in line for line in box.warnings] == [True]
    assert box.beside == {"shop.nightshift"}
    assert stat.S_ISDIR((box.root / ".git").stat().st_mode)
    assert box.repair()
    assert owners(box.root) == owned and not box.beside
