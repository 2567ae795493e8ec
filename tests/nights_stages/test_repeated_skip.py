"""A skip that repeats is no quiet night: the fifth in a row is a warning."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.shop import GOOD
from tests.support.standin_records import PipelineJob, StandinPipeline
from tests.support.world import Done, World, world

JOB = "nightshift"
OFF = "enabled is false (variable NIGHTSHIFT_ENABLED)"
RED = "verify_commands fail on the untouched checkout: `false` failed: exit status 1."


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, GOOD) as made:
        yield made


def night_before(shop: World, number: int, result: Any, job: str = JOB, **own: str) -> None:
    """An earlier scheduled pipeline, with what its job has left."""
    kept = shop.folder / f"artifacts-{number}"
    (kept / "nightshift").mkdir(parents=True)
    (kept / "nightshift" / "result.json").write_text(json.dumps(result))
    user, url = shop.gitlab.users[0], f"{shop.project.web_url}/-/pipelines/{number}"
    made = StandinPipeline(
        number, own.get("ref", "main"), shop.sha, url, user, {}, own.get("source", "schedule")
    )
    shop.project.pipelines.append(made)
    shop.project.jobs.append(PipelineJob(number * 10, number, job, kept))


def skipped(why: str) -> dict[str, str]:
    return {"outcome": "SKIPPED", "reason": why}


def tonight(shop: World, **env: str) -> Done:
    return shop.nightshift("run", CI_JOB_NAME=JOB, **{"NIGHTSHIFT_ENABLED": "false", **env})


def test_the_fifth_equal_skip_warns(shop: World) -> None:
    """And the sixth; numbers in the reason may differ. Nine requests at most tell it."""
    for number in (1, 2, 3):
        night_before(shop, number, skipped(OFF))
    night_before(shop, 8, skipped("by another pipeline"), source="web")
    night_before(shop, 9, skipped("on another branch"), ref="other")
    assert tonight(shop).exit_status == 0
    night_before(shop, 4, skipped(OFF))
    shop.gitlab.requests.clear()
    done = tonight(shop)
    assert done.exit_status == 13
    row = "5 nights in a row were skipped for the same reason"
    assert f"⚠ SKIPPED · E_INCOMPLETE · {row}. {OFF}" in done.last_line
    asked = [r for r in shop.gitlab.requests if "/pipelines" in r.path or "/artifacts/" in r.path]
    assert len(asked) <= 10
    night_before(shop, 5, shop.result)
    assert tonight(shop).exit_status == 13


def test_what_the_baseline_says_counts_too(shop: World) -> None:
    for number in (1, 2, 3, 4):
        night_before(shop, number, skipped(f"{RED} Fix that first, or set baseline: report."))
    done = tonight(shop, NIGHTSHIFT_ENABLED="true", NIGHTSHIFT_VERIFY_COMMANDS="false")
    assert (done.exit_status, shop.result["outcome"]) == (13, "SKIPPED")
    assert shop.agent.seen == []


@pytest.mark.parametrize(
    "other",
    [
        skipped("open night-shift merge requests: 3; the limit is 3"),
        {"outcome": "NO_IMPROVEMENT", "reason": OFF},
        [],
    ],
)
def test_another_end_in_between_ends_the_row(shop: World, other: Any) -> None:
    for number in (1, 2, 3, 4):
        night_before(shop, number, other if number == 2 else skipped(OFF))
    assert tonight(shop).exit_status == 0


def test_where_it_cannot_be_known(shop: World) -> None:
    """Artifacts that are gone or no JSON; more pipelines of other schedules than ten requests can
    look behind."""
    for number in (1, 2, 3, 4):
        night_before(shop, number, skipped(OFF))
    file = shop.folder / "artifacts-3" / "nightshift" / "result.json"
    unknown = "not known: whether the last nights were skipped too"
    for text in ("{", None):
        file.write_text(text) if text else file.unlink()
        done = tonight(shop)
        assert (done.exit_status, unknown in done.log) == (0, True)
    file.write_text(json.dumps(skipped(OFF)))
    night_before(shop, 5, skipped(OFF), "nightly-build")
    assert tonight(shop).exit_status == 13
    night_before(shop, 6, skipped(OFF), "nightly-build")
    shop.gitlab.requests.clear()
    done = tonight(shop)
    assert (done.exit_status, unknown in done.log) == (0, True)
    asked = [r for r in shop.gitlab.requests if "/pipelines" in r.path or "/artifacts/" in r.path]
    assert len(asked) <= 11, "ten, and one for this pipeline's own jobs"


def test_with_three_jobs_plan_tells_work(shop: World) -> None:
    for number in (1, 2, 3, 4):
        night_before(shop, number, skipped(OFF), "nightshift:publish")
    off = {"NIGHTSHIFT_ENABLED": "false"}
    assert shop.nightshift("plan", CI_JOB_NAME="nightshift:plan", **off).exit_status == 0
    assert shop.product("plan.json")["skipped_before"] == [OFF] * 4
    assert shop.nightshift("work", GITLAB_TOKEN="", **off).exit_status == 13
