"""A disk that an agent has filled is told as that, and not as a CLI that cannot be started."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.agent import answer, flood, plays
from tests.support.shop import FOUND, nothing
from tests.support.world import ended, world

SMALL = "mount -t tmpfs -o size=12m none {folder} && exec {command}"


def private_mounts(folder: Path) -> bool:
    """True where a test may mount a small disk that only its own programs see."""
    script = SMALL.format(folder=folder, command="true")
    argv = ["unshare", "-rm", "sh", "-c", script]
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0


def test_logs_that_fill_the_disk_end_the_run_with_the_reason(tmp_path: Path) -> None:
    scripts = plays({"analyze": nothing()}, {"analyze-tests": [flood(20_000_000), answer(FOUND)]})
    with world(tmp_path, scripts) as shop:
        small = tmp_path / "tmp"
        if not private_mounts(small):
            pytest.skip("no small disk can be mounted here")
        command = f"{sys.executable} -m gitlab_nightshift run"
        script = SMALL.format(folder=small, command=command)
        argv = ["unshare", "-rm", "sh", "-c", script]
        pipe = subprocess.PIPE
        done = ended(
            subprocess.Popen(argv, cwd=shop.checkout, env=shop.env, stdout=pipe, stderr=pipe)
        )

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
