"""A disk that an agent has filled is told as that, and not as a CLI that cannot be started."""

import subprocess
from pathlib import Path

import pytest

from tests.support.agent import answer, flood, plays
from tests.support.shop import FOUND, nothing
from tests.support.world import world

SMALL = "mount -t tmpfs -o size=12m none {folder}"
IN_NAMESPACES = """
import ctypes, os, subprocess
NEW_MOUNTS, NEW_USERS = 0x20000, 0x10000000
user, group = os.getuid(), os.getgid()
assert ctypes.CDLL(None).unshare(NEW_MOUNTS | NEW_USERS) == 0
maps = {{"setgroups": "deny", "uid_map": f"0 {{user}} 1", "gid_map": f"0 {{group}} 1"}}
for name, text in maps.items():
    with open(f"/proc/self/{{name}}", "w") as file:
        file.write(text)
subprocess.run({command!r}.split(), check=True)
"""
"""What `unshare -rm` does, and a mount."""


def private_mounts(folder: Path) -> bool:
    """True where a test may mount a small disk that only its own programs see."""
    argv = ["unshare", "-rm", *SMALL.format(folder=folder).split()]
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0


def test_logs_that_fill_the_disk_end_the_run_with_the_reason(tmp_path: Path) -> None:
    scripts = plays({"analyze": nothing()}, {"analyze-tests": [flood(20_000_000), answer(FOUND)]})
    with world(tmp_path, scripts) as shop:
        small = tmp_path / "tmp"
        if not private_mounts(small):
            pytest.skip("no small disk can be mounted here")
        shop.patch = IN_NAMESPACES.format(command=SMALL.format(folder=small))
        done = shop.nightshift("run")

        assert done.exit_status == 2, done.stdout + done.stderr
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("FAILED", "E_CONFIG")
        assert result["reason"].startswith(f"no space left on the disk of {small}/nightshift-")
        assert [(bead["bead"], bead["error"]) for bead in result["beads"]] == [
            ("analyze", "[Errno 28] No space left on device")
        ]
        assert "cannot be started" not in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        shop.assert_put_back()
