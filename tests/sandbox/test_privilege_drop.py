"""The rights that a process drops before it reads what an agent wrote.

``tests/separation/test_planted.py`` has the attacks.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.sandbox import stage_process
from gitlab_nightshift.sandbox.inside import landlock
from gitlab_nightshift.sandbox.privilege_drop import ProcessRights
from gitlab_nightshift.sandbox.process import ProcessLimits
from gitlab_nightshift.sandbox.stage_process import run_stage
from tests.support.stages import PLAIN_STAGE, real_start

CODE = """
import json, resource, subprocess
from gitlab_nightshift.sandbox import privilege_drop
{before}
rights = dict(data["rights_to_keep"])
rights["readable"] += sys.path
privilege_drop.restrict_to(privilege_drop.ProcessRights(**rights))
{after}
status = open("/proc/self/status").read() if not privilege_drop.landlock.read_abi() else ""
try:
    git = subprocess.run(["/usr/bin/env", "git", "--version"], capture_output=True).returncode
except OSError as error:
    git = error.strerror
limits = [resource.getrlimit(what)[0] for what in (resource.RLIMIT_DATA, resource.RLIMIT_CPU)]
print(json.dumps({{"git": git, "status": status, "limits": limits}}))
"""
SYSTEM = ("/usr", "/lib", "/lib64", "/bin")
RIGHTS = ProcessRights(
    SYSTEM,
    (),
    (),
    uses_network=False,
    serves=False,
    starts_processes=True,
    changes_attributes=False,
    memory=10**9,
    cpu_s=300,
)


def run_restricted(folder: Path, before: str = "", after: str = "", **changes: Any) -> Any:
    """The report of a process that drops all rights but ``RIGHTS`` with these changes."""
    folder.mkdir(exist_ok=True)
    rights = dataclasses.replace(RIGHTS, writable=(str(folder),), **changes)
    code = CODE.format(before=before, after=after)
    data = {"code": code, "rights_to_keep": dataclasses.asdict(rights)}
    env = {"PATH": "/usr/bin:/bin"}
    return json.loads(run_stage(PLAIN_STAGE, data, env, b"", ProcessLimits(300)))


@pytest.fixture(autouse=True)
def _real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_process, "start_stage", real_start)


@pytest.mark.skipif(not landlock.read_abi(), reason="no Landlock")
def test_git_runs_after_the_drop(tmp_path: Path) -> None:
    assert run_restricted(tmp_path) == {"git": 0, "status": "", "limits": [10**9, 300]}


def test_a_row_without_children_starts_none(tmp_path: Path) -> None:
    after = "import threading; t = threading.Thread(target=list); t.start(); t.join()"
    report = run_restricted(tmp_path, after=after, starts_processes=False)
    assert report["git"] == "Operation not permitted"


def test_without_landlock_no_capability_is_kept(tmp_path: Path) -> None:
    report = run_restricted(tmp_path, "privilege_drop.landlock.read_abi = lambda: 0")
    assert report["git"] == 0
    lines = dict(line.split(":\t") for line in report["status"].splitlines() if ":\t" in line)
    assert {int(lines[f"Cap{name}"], 16) for name in ("Prm", "Eff", "Amb", "Inh")} == {0}
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")


@pytest.mark.skipif(os.getuid() != 0 or not landlock.read_abi(), reason="only root, with Landlock")
def test_root_reads_objects_of_another_user(tmp_path: Path) -> None:
    """A runner may clone as another user than the job's, with a strict umask."""
    closed = tmp_path / "objects"
    closed.mkdir(mode=0o700)
    (closed / "one").write_text("of another")
    (closed / "one").chmod(0o600)
    for path in (closed / "one", closed):
        os.chown(path, 60_000, 60_000)
    after = f"assert open({str(closed / 'one')!r}).read() == 'of another'"
    readable = (*SYSTEM, str(closed))
    assert run_restricted(tmp_path / "own", after=after, readable=readable)["git"] == 0
