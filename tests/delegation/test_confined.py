"""The process that works on a delegation is confined, as a night's is; it tries so itself."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.sandbox.tiers import WORK_READERS
from tests.sandbox.tools import open_folder
from tests.support.delegation import DEVELOPMENT, Delegations, delegations, ended
from tests.support.sandboxes import scripted, tier_or_skip

ADDED = "echo '# a note' >> shop.py"


CONFINING = """
from gitlab_nightshift.sandbox import confinement
from gitlab_nightshift.sandbox import stage_process
from tests.support import stages

def start_work_really():
    stage_process.start_stage = stages.real_start
    confinement.choose = stages.real_choose

stages.start_by_forks = start_work_really
"""


def rows(context: Delegations, isolation: str, home: str = "", **workspace: Any) -> list[Any]:
    """The rows about it, where the process that works is started as it is for users."""
    agent = context.folder / "scripted"
    agent.mkdir()
    (agent / "claude").write_text(scripted(ADDED))
    (agent / "claude").chmod(0o755)
    env = {"PATH": f"{agent}:{context.env['PATH']}", "NIGHTSHIFT_ISOLATION": isolation}
    env |= {"HOME": home} if home else {}
    payload = context.payload(**({"workspace": workspace} if workspace else {}))
    done = ended(context.start(payload, before=CONFINING, **env))
    assert (done.result["ok"], done.result["files_changed"]) == (True, ["shop.py"]), done.log
    [events] = context.context.rglob("events.jsonl")
    told = map(json.loads, events.read_text().splitlines())
    [proven] = [event for event in told if event["event"] == "boundary_proven"]
    return [row for row in proven["rows"] if row["title"] == WORK_READERS.title]


@pytest.mark.parametrize(("isolation", "way"), [("auto", "namespaces"), ("uid", "landlock")])
def test_it_is_confined(isolation: str, way: str) -> None:
    tier_or_skip("namespaces")
    if isolation == "uid" and os.geteuid() != 0:
        pytest.skip("the uid tier needs root")
    with open_folder() as folder, delegations(Path(folder)) as context:
        before = context.working_tree()
        [row] = rows(context, isolation)
        assert row["attempts"] > 10
        # Root's own namespaces are the machine's: that is not guaranteed.
        partial = way == "namespaces" and os.geteuid() == 0
        assert row["state"] == ("partial" if partial else "held")
        assert f"{way}" in row["how"]
        assert context.working_tree() == before


def test_it_is_confined_in_a_home_that_holds_everything() -> None:
    tier_or_skip("namespaces")
    with open_folder() as folder, delegations(Path(folder)) as context:
        (context.folder / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@b.example\n")
        [row] = rows(context, "auto", str(context.folder))
        assert "namespaces" in row["how"]


def test_what_works_in_the_callers_own_checkout_is_not() -> None:
    """The control: there are no rows, since nothing confines it."""
    with open_folder() as folder, delegations(Path(folder)) as context:
        context.configure(DEVELOPMENT)
        assert rows(context, tier_or_skip("namespaces"), checkout_mode="in_place") == []
