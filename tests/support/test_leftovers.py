"""A test that fails leaves nothing: shown by one that leaves all kinds, in a run of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import kept, warm
from tests.support.leftovers import unmount_all
from tests.support.world import ROOT

FAILING = """
import json, os, pathlib, subprocess
from tests.support import kept, warm

def test_that_fails(tmp_path):
    kept.shared = pathlib.Path(@SHARED@)
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", disk])
    child = subprocess.Popen(["sleep", "3600"])
    subprocess.run("setsid sleep 3600 > /dev/null & echo $! > daemon", shell=True, cwd=tmp_path)
    reader, writer = os.pipe()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = warm.start(["delegate"], cwd=tmp_path, env=env, stdin=reader)
    pids = [child.pid, command.pid, int((tmp_path / "daemon").read_text())]
    with open(@LEFT@, "w") as file:
        json.dump([str(tmp_path), pids], file)
    os.close(reader)
    raise AssertionError(f"on purpose, with {writer} open")
"""


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("guarded", [True, False])
def test_of_a_failed_test_nothing_is_left(tmp_path: Path, guarded: bool) -> None:
    """And without the suite's conftest it all stays: the control."""
    left, case = tmp_path / "left", tmp_path / "test_failing.py"
    with warm.start(["--version"], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}) as ready:
        assert ready.wait() == 0
    places = {"@LEFT@": str(left), "@SHARED@": str(kept.shared)}
    case.write_text(re.sub("@[A-Z]+@", lambda found: repr(places[found[0]]), FAILING))
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path)]
    command += ["--basetemp", str(tmp_path / "base"), "-p", "no:cacheprovider", str(case)]
    command += ["-p", "tests.conftest"] if guarded else []
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False
    )
    assert b"on purpose" in done.stdout, done.stdout.decode() + done.stderr.decode()
    folder, pids = json.loads(left.read_text())
    mounts = Path("/proc/self/mounts").read_text().count(folder)
    alive = [is_alive(pid) for pid in pids]
    try:
        # The mount needs root; the command is the child of a server that ends with its run anyway.
        assert (mounts, alive[0], alive[2]) == (
            (0, False, False) if guarded else (mounts, True, True)
        )
        assert mounts == (os.geteuid() == 0 and not guarded)
        assert not (guarded and alive[1])
    finally:
        unmount_all(tmp_path)
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
