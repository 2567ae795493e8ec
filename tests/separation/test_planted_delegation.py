"""Code planted in the processes of a delegation gets nothing beyond their rows."""

import os
import sys
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.inside import landlock
from tests.delegation.test_confined import ADDED, CONFINING
from tests.sandbox.tools import open_folder
from tests.separation import attempts, planting
from tests.support.delegation import DEVELOPMENT, delegations, ended
from tests.support.sandboxes import scripted
from tests.support.world import ROOT

BOTH = {
    *("a process that stays", "reading <project>.tmp", "reading .git/config"),
    *("writing .git/config", "reading the results", "writing the results"),
    *("modes outside", "owners outside", "times outside", "attributes outside"),
    "giving files away",
}
OF_ROWS = {"prepare": BOTH | {"its own values"}, "finish": BOTH}
PLANTED = """
from pathlib import Path
from gitlab_nightshift import sealed_start

sealed_start.ENTRY = Path({entry!r})
"""


BEYOND = {
    "reading HOME",
    "writing HOME",
    "writing programs",
    "a datagram",
    "an io_uring",
    "a user namespace",
}
"""What each gets besides that has given nothing up."""


def run_planted(folder: Path, *, open_: bool) -> dict[str, set[str]]:
    """What the code has got in each process of a delegation."""
    with open_folder() as plant, delegations(folder, config=DEVELOPMENT) as context:
        home = Path(context.env["HOME"])
        (home / ".netrc").write_text("machine gitlab password a-password-at-home\n")
        (home / ".bashrc").touch()
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
        known = (str(context.repository), str(home), "", str(ROOT / "gitlab_nightshift"))
        places = attempts.Places(*known, "nobody", namespace, context.env["TMPDIR"], port=9)
        planting.prepare(plant, Path(sys.executable), places, open_=open_, only=OF_ROWS)
        agent = context.folder / "scripted"
        agent.mkdir()
        (agent / "claude").write_text(scripted(ADDED))
        (agent / "claude").chmod(0o755)
        before = CONFINING + PLANTED.format(entry=str(plant / "entry.py"))
        env = {"PATH": f"{agent}:{context.env['PATH']}", "NIGHTSHIFT_ISOLATION": "auto"}
        done = ended(context.start(context.payload(), before=before, **env))
        assert done.result["ok"] is True, done.result["error"]
        assert planting.count_alive(plant) == 0, "a process has stayed"
        found = {process: planting.read_found(plant, process) for process in OF_ROWS}
    return {process: {name for name in got if got[name]} for process, got in found.items()}


@pytest.mark.skipif(landlock.read_abi() < 6, reason="older kernels hold less")
def test_planted_code_gets_nothing_beyond_the_row_of_its_process(tmp_path: Path) -> None:
    for process, got in run_planted(tmp_path, open_=False).items():
        assert got - OF_ROWS[process] == set(), process


def test_the_same_code_gets_more_where_nothing_is_given_up(tmp_path: Path) -> None:
    """The control."""
    for process, got in run_planted(tmp_path, open_=True).items():
        assert BEYOND - got == set(), process
