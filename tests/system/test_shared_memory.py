"""What a run left in shared memory is removed where it can only be this run's."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.support.world import ROOT

CODE = """
import os, subprocess, sys

sys.path.insert(0, {root!r})
from pathlib import Path
from gitlab_nightshift.system import shared_memory

shared = Path("/dev/shm")
(shared / "before").touch()
os.chown(shared / "before", 0, 0)
known = shared_memory.look_at_shared_memory()
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
"""With a daemon beside it: the orphan's parent is the first process of the namespace."""


def left_after(then: str) -> set[str]:
    """What is in the shared memory of a job that is alone in its container, the first process of
    which waits for it."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root to make a container's namespaces")
    code = CODE.format(root=str(ROOT), then=then)
    script = 'mount -t tmpfs tests /dev/shm && "$@"; exit $?'
    inner = ["sh", "-c", script, "sh", sys.executable, "-I", "-c", code]
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", *inner]
    return set(subprocess.check_output(command, text=True).splitlines()[-1].split())


def test_what_is_new_and_ours_is_removed() -> None:
    assert left_after(ALONE) == {"before", "another's"}


def test_without_that_it_stays() -> None:
    """The control."""
    assert left_after("pass") == {"before", "another's", "file", "folder"}


def test_nothing_is_removed_where_it_may_be_another_jobs() -> None:
    assert left_after(WITH_OTHERS) == {"before", "another's", "file", "folder"}
