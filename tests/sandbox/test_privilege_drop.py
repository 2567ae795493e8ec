"""What a process gives up before it reads what an agent wrote.

``tests/publish/test_rebuilt_bundle.py`` has the attacks.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.sandbox.inside import landlock
from gitlab_nightshift.system import stage_process
from gitlab_nightshift.system.process import ProcessLimits
from gitlab_nightshift.system.stage_process import run_stage
from tests.support.stages import real_start

CODE = """
from gitlab_nightshift.sandbox import privilege_drop
{before}
readable = ["/usr", "/lib", "/lib64", "/bin", *sys.path]
open_still = privilege_drop.renounce(readable, [data["folder"]])
privilege_drop.set_limits(10**9, 300)
{after}
import json, subprocess
status = open("/proc/self/status").read() if not privilege_drop.landlock.read_abi() else ""
git = subprocess.run(["/usr/bin/env", "git", "--version"], capture_output=True).returncode
print(json.dumps({{"open": open_still, "git": git, "status": status}}))
"""


def told(folder: str, before: str = "", after: str = "") -> Any:
    Path(folder).mkdir(exist_ok=True)
    data = {"code": CODE.format(before=before, after=after), "folder": folder}
    env = {"PATH": "/usr/bin:/bin"}
    return json.loads(run_stage("tests.support.plain_stage", data, env, b"", ProcessLimits(300)))


@pytest.fixture(autouse=True)
def _real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_process, "start_stage", real_start)


@pytest.mark.skipif(not landlock.read_abi(), reason="no Landlock")
def test_all_is_held_here(tmp_path: Path) -> None:
    assert told(str(tmp_path)) == {"open": [], "git": 0, "status": ""}


def test_without_landlock_it_says_so_and_has_no_capability(tmp_path: Path) -> None:
    without = "privilege_drop.landlock.read_abi = lambda: 0"
    found = told(str(tmp_path), without)
    assert (found["open"], found["git"]) == (["files"], 0)
    lines = dict(line.split(":\t") for line in found["status"].splitlines() if ":\t" in line)
    assert {int(lines[f"Cap{name}"], 16) for name in ("Prm", "Eff", "Amb", "Inh")} == {0}
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")


@pytest.mark.skipif(os.getuid() != 0 or not landlock.read_abi(), reason="only root, with Landlock")
def test_root_reads_objects_of_another_user(tmp_path: Path) -> None:
    """A runner clones as another user than the job's, perhaps with a umask."""
    closed = tmp_path / "objects"
    closed.mkdir(mode=0o700)
    (closed / "one").write_text("of another")
    (closed / "one").chmod(0o600)
    for path in (closed / "one", closed):
        os.chown(path, 60_000, 60_000)
    allow = f"sys.path.append({str(closed)!r})"
    after = f"assert open({str(closed / 'one')!r}).read() == 'of another'"
    assert told(str(tmp_path / "own"), allow, after)["git"] == 0
