"""Modes that work has changed outside its folders are restored; files in shared memory are removed
if they can only be this run's.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gitlab_nightshift.system.outside_changes import record_modes
from tests.nights_sandbox.test_plain_user import PLAIN
from tests.repository.tools import fork, wait_end
from tests.sandbox.tools import open_folder
from tests.support.world import ROOT


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("restoring", [True, False])
def test_closed_folders_are_opened_again(*, restoring: bool) -> None:
    """In the control the checkout stays closed."""
    with open_folder() as folder:
        checkout = folder / "builds/group/shop"
        checkout.mkdir(parents=True)
        for path in (checkout.parent.parent, checkout.parent, checkout):
            path.chmod(0o750)
            os.chown(path, PLAIN, PLAIN)

        def go() -> None:
            os.setresgid(PLAIN, PLAIN, PLAIN)
            os.setresuid(PLAIN, PLAIN, PLAIN)
            modes = record_modes((checkout,))
            for path in (checkout.parent, checkout.parent.parent):
                path.chmod(0)
            if restoring:
                modes.restore()
            assert os.access(checkout, os.W_OK) is restoring

        assert wait_end(fork(go)) == 0
        modes = [path.stat().st_mode & 0o777 for path in checkout.parents[:2]]
        assert modes == ([0o750, 0o750] if restoring else [0, 0])


def test_folders_of_other_users_are_not_recorded(tmp_path: Path) -> None:
    modes = record_modes((tmp_path / "checkout",)).modes
    assert list(modes)[-1] == tmp_path
    assert all(path.stat().st_uid == os.geteuid() for path in modes)


CODE = """
import os, subprocess, sys

sys.path.insert(0, {root!r})
from pathlib import Path
from gitlab_nightshift.system import outside_changes

shared = Path("/dev/shm")
(shared / "before").touch()
os.chown(shared / "before", 0, 0)
known = outside_changes.record_shared_memory()
(shared / "file").write_text("x")
(shared / "folder/inner").mkdir(parents=True)
(shared / "folder/inner").chmod(0)
(shared / "another's").touch()
os.chown(shared / "another's", 4711, 4711)
with subprocess.Popen(["sleep", "600"]) as below:
    try:
        {then}
    finally:
        below.kill()
print(*sorted(os.listdir(shared)))
"""
ALONE = "known.remove_new()"
WITH_OTHERS = """\
if os.fork() == 0:
            other = os.fork() or os.execvp("sleep", ["sleep", "600"])
            os._exit(0)
        os.wait()
        known.remove_new()"""
"""Beside a daemon, whose parent is the first process of the namespace."""


def list_remaining_files(then: str) -> set[str]:
    """The files that remain in the shared memory of a job in its own container."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root to make a container's namespaces")
    code = CODE.format(root=str(ROOT), then=then)
    script = 'mount -t tmpfs tests /dev/shm && "$@"; exit $?'
    inner = ["sh", "-c", script, "sh", sys.executable, "-I", "-c", code]
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", *inner]
    return set(subprocess.check_output(command, text=True).splitlines()[-1].split())


def test_our_new_files_are_removed() -> None:
    assert list_remaining_files(ALONE) == {"before", "another's"}


def test_without_the_removal_they_stay() -> None:
    """The control."""
    assert list_remaining_files("pass") == {"before", "another's", "file", "folder"}


def test_nothing_is_removed_beside_unrelated_processes() -> None:
    assert list_remaining_files(WITH_OTHERS) == {"before", "another's", "file", "folder"}
