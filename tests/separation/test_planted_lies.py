"""Code planted in work, in report and in what reads the bundle cannot have a merge request say that
something ran which did not: in four places, in one job and in three."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nights_sandbox.test_plain_user import PLAIN, give_away
from tests.sandbox import tools
from tests.separation import attempts, lying, planting
from tests.separation.test_planted import PLACES, python  # noqa: F401 - a fixture
from tests.support.sandboxes import scripted, with_agent
from tests.support.standin_records import PipelineJob
from tests.support.world import JOB_TOKEN, PROVING, Done, World, world

BREAKS = scripted("sed -i 's/100 - discount/0 - discount/' shop.py")
"""A change with which the project's test fails: nothing that ran can have passed on it."""
GOOD = scripted("echo '# x' >> test_shop.py")
CONFIG = PROVING + "policy: {flags: {outside-selection: off}}\n"
LIARS = {
    "work and report": (BREAKS, (8, "E_TEST_FAILED"), ("the notary",)),
    "bundle reader": (BREAKS, (13, "E_INCOMPLETE"), ("its tree",)),
    "publish's child": (GOOD, (12, "E_PUBLISH"), ("the record's tree",)),
}
"""What lies, with what agent, what becomes of the night, and what defends against it."""
SAID = f"- `{lying.COMMAND}`: exit 0, "
WORK, NOTARY = "nightshift:work", "nightshift:notary"
BOTH = ("--from-job", WORK, "--notary-job", NOTARY)


@contextlib.contextmanager
def liar(place: str, interpreter: Path, process: str, off: tuple[str, ...] = ()) -> Iterator[World]:
    """A night to come, in which the process lies; with it work, where the change is a bad one."""
    agent = LIARS[process][0]
    liars = {*process.split(" and "), *(["work"] if agent is BREAKS else [])}
    with tools.open_folder() as folder, world(folder / "world", config=CONFIG) as shop:
        shop.folder.chmod(0o755)
        own, plant = interpreter if "user" in place else Path(sys.executable), folder / "plant"
        plant.mkdir()
        lies = {
            "liars": sorted(liars),
            "off": off,
            "checkout": str(shop.checkout),
            "temporary": shop.env["TMPDIR"],
        }
        nowhere = attempts.Places("", "", "", "", "", "", "")
        shop.python = planting.prepare(plant, own, nowhere, place=PLACES[place], lies=lies)
        path = with_agent(shop, "scripted", agent)
        if "user" in place:
            give_away(shop, own, "builds", "home", "tmp", "agent", "scripted")
        shop.user = PLAIN if place == "user" else None
        bot = shop.gitlab.users[0]
        shop.gitlab.add_token(JOB_TOKEN, bot, access_level=30, kind="job")
        shop.env |= {"PATH": path, "NIGHTSHIFT_ISOLATION": "auto"}
        try:
            yield shop
        finally:  # Landlock leaves shared memory to whoever is confined by it
            for shared in lying.SHARED:
                (shared / lying.RECORD).unlink(missing_ok=True)


def run_one_job(shop: World) -> tuple[Done, Any]:
    done = shop.nightshift("run", "--category", "tests")
    return done, shop.result


def run_three_jobs(shop: World) -> tuple[Done, Any]:
    """Each with what a job of the template would have, in the same checkout."""
    shop.project.jobs.append(PipelineJob(12, 4711, WORK, shop.folder / "nothing"))
    assert shop.nightshift("plan", "--category", "tests").exit_status == 0
    _keep(shop, 11, "nightshift:plan", ("plan.json",))
    assert shop.nightshift("work", GITLAB_TOKEN="").exit_status == 0
    _keep(shop, 12, WORK)
    shutil.rmtree(shop.checkout / "nightshift/bundle")
    seen = shop.nightshift("notary", "--from-job", WORK, GITLAB_TOKEN="")
    assert seen.exit_status in (0, 8, 13), seen
    _keep(shop, 13, NOTARY, ("notary.json",))
    shutil.rmtree(shop.checkout / "nightshift")
    done = shop.nightshift("publish", *BOTH)
    return done, shop.result


def _keep(shop: World, number: int, name: str, only: tuple[str, ...] = ()) -> None:
    """Upload what a job of this name leaves."""
    kept, made = shop.folder / f"artifacts-{number}" / "nightshift", shop.checkout / "nightshift"
    if only:
        kept.mkdir(parents=True)
        for each in only:
            shutil.copy(made / each, kept)
    else:
        shutil.copytree(made, kept)
        (kept / "plan.json").unlink(missing_ok=True)
    shop.project.jobs = [each for each in shop.project.jobs if each.id != number]
    shop.project.jobs.append(PipelineJob(number, 4711, name, kept.parent))


SHAPES = {"one job": run_one_job, "three jobs": run_three_jobs}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("process", LIARS)
def test_no_merge_request_says_that_it_ran(
    process: str,
    place: str,
    shape: str,
    python: Path,  # noqa: F811
) -> None:
    _, (status, code), _ = LIARS[process]
    with liar(place, python, process) as shop:
        done, result = SHAPES[shape](shop)
        assert shop.merge_requests == [], done.log
        assert (done.exit_status, result["error_code"]) == (status, code), done.log
        assert shop.project.pushes == []
        record = json.loads((shop.checkout / "nightshift/notary.json").read_bytes())
        passed = [run["exit_status"] for each in record["commands"] for run in each["runs"]]
        assert passed == {8: [2], 13: [], 12: [0]}[status]


@pytest.mark.parametrize("process", LIARS)
def test_one_says_so_where_the_defence_is_off(process: str, python: Path) -> None:  # noqa: F811
    """The control."""
    with liar("root", python, process, off=LIARS[process][2]) as shop:
        done, _ = run_one_job(shop)
        [opened] = shop.merge_requests
        assert SAID in (opened.description or ""), done.log
        assert "This program ran, on commit" in (opened.description or "")
