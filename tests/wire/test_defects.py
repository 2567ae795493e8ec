"""The report of a bug in this program."""

import subprocess
import sys
from pathlib import Path

from tests.support.world import git

DEFECT = """
from gitlab_nightshift.wire.exit_status import run_guarded

raise SystemExit(run_guarded(lambda: 1 // 0, {}))
"""


def test_the_traceback_of_a_bug_is_stored_where_git_ignores_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    done = subprocess.run(
        [sys.executable, "-c", DEFECT], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == 70
    [traceback] = (tmp_path / "nightshift/logs").iterdir()
    assert f"a defect of nightshift (ZeroDivisionError); please report {traceback}" in done.stderr
    assert "ZeroDivisionError" in traceback.read_text()
    assert git(tmp_path, "status", "--porcelain") == ""
