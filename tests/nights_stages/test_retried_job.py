"""A job that somebody retries is the same run: it goes on, or says so, and never pays twice."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.demo.standin_state import MergeRequestState
from tests.support.opened import leave_verified, opened
from tests.support.shop import GOOD, KEY_REFUSED, nothing
from tests.support.standin_records import PipelineJob
from tests.support.world import Done, World, world

NIGHT = {"CI_JOB_NAME": "nightshift"}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, GOOD) as made:
        yield made


def retried(shop: World, number: int, name: str = "nightshift", command: str = "run") -> Done:
    """Upload what the last try has left, and start the job again in a fresh checkout."""
    uploaded(shop, number, name)
    shop.checked_out_anew()
    return shop.nightshift(command, **NIGHT, CI_JOB_ID="999")


def uploaded(shop: World, number: int, name: str = "nightshift") -> Path:
    kept = shop.folder / f"artifacts-{number}"
    shutil.copytree(shop.checkout / "nightshift", kept / "nightshift")
    shop.project.jobs.append(PipelineJob(number, 4711, name, kept, status="failed"))
    return kept / "nightshift" / "bundle"


def test_a_merge_request_of_this_run_ends_it(tmp_path: Path) -> None:
    """Under its own category, whatever this try would look for; also where no artifact is left."""
    ends: list[tuple[MergeRequestState, str]] = [("opened", "MR_CREATED"), ("closed", "SKIPPED")]
    with opened(tmp_path) as (shop, mr):
        beads = len(shop.agent.seen)
        for state, outcome in ends:
            mr.change_state(state)
            shop.checked_out_anew()
            done = shop.nightshift("run", "--category", "docs", **NIGHT)
            assert (done.exit_status, shop.result["outcome"]) == (0, outcome), done.log
            assert (shop.result["category_used"], shop.result["mr_url"]) == ("tests", mr.web_url)
            assert shop.result["reason"].startswith(f"already published: merge request !{mr.iid} ")
        assert len(shop.agent.seen) == beads
        assert len(shop.merge_requests) == 1
        shop.assert_restored()


def test_a_saved_change_is_published(shop: World) -> None:
    """Of the newest try that has left one; the run's cost is that of its night."""
    shop.gitlab.fail_next("POST", "/merge_requests$", 403, {"message": "403 Forbidden"})
    done = shop.nightshift("run", **NIGHT)
    assert (done.exit_status, shop.merge_requests) == (12, [])
    spent, beads = shop.result["total_cost_usd"], len(shop.agent.seen)
    shop.project.jobs.append(PipelineJob(5, 4711, "build", shop.folder / "nothing"))

    done = retried(shop, 11)
    assert done.exit_status == 0, done.log
    assert "job 11 of this run has verified a change, which will be published now" in done.log
    [mr] = shop.merge_requests
    assert (shop.result["outcome"], shop.result["mr_url"]) == ("MR_CREATED", mr.web_url)
    assert (shop.result["total_cost_usd"], len(shop.agent.seen)) == (spent, beads)
    assert len(shop.result["beads"]) == 4
    shop.assert_restored()


def test_a_dry_run_stays_one(shop: World) -> None:
    leave_verified(shop)
    beads = len(shop.agent.seen)
    shop.env["NIGHTSHIFT_DRY_RUN"] = "true"
    assert retried(shop, 11).exit_status == 0
    assert (shop.result["outcome"], len(shop.agent.seen)) == ("MR_READY", beads)
    assert shop.written == []


def test_a_quiet_night_is_not_paid_again_and_a_failed_one_is_done(shop: World) -> None:
    """Nor is another job's night of this pipeline taken for this one's."""
    shop.agent.script({"analyze": KEY_REFUSED})
    assert shop.nightshift("run", **NIGHT).exit_status == 5
    shop.agent.script({"analyze": nothing()})
    uploaded(shop, 10, "another-night")
    assert retried(shop, 11).exit_status == 0
    assert shop.result["outcome"] == "NO_IMPROVEMENT"
    beads = len(shop.agent.seen)

    done = retried(shop, 12)
    assert (done.exit_status, len(shop.agent.seen)) == (0, beads)
    assert shop.result["outcome"] == "NO_IMPROVEMENT"
    assert (
        "job 12 of this run has already done this night: All categories e" in shop.result["reason"]
    )


def test_a_plan_that_is_made_again_says_so(shop: World) -> None:
    """With three jobs: its own job comes again, and the night is in another one's artifacts."""
    shop.env |= {"CI_JOB_NAME": "nightshift:plan"}
    assert shop.nightshift("plan").exit_status == 0
    uploaded(shop, 11, "nightshift:plan")
    leave_verified(shop)
    shop.project.jobs.append(PipelineJob(13, 4711, "nightshift:work", shop.folder / "a"))
    shutil.copytree(shop.checkout / "nightshift", shop.folder / "a/nightshift")
    shop.checked_out_anew()
    done = shop.ends(0, "plan", CI_JOB_ID="14")
    assert "✔ job 13 of this run has verified a change" in done.log


@pytest.mark.parametrize("spoil", ["version", "json"])
def test_a_bundle_that_cannot_be_used_ends_it(shop: World, spoil: str) -> None:
    """Such as an older version's: there was a night, and another one would be paid twice."""
    leave_verified(shop)
    beads = len(shop.agent.seen)
    file = uploaded(shop, 11) / "bundle.json"
    data = {**json.loads(file.read_text()), "version": 0}
    file.write_text(json.dumps(data) if spoil == "version" else "{")
    shop.checked_out_anew()
    done = shop.nightshift("run", **NIGHT)
    assert (done.exit_status, len(shop.agent.seen)) == (10, beads)
    assert "job 11 of this run left a bundle that cannot be used: " in done.last_line
    assert "Start a new pipeline for another night" in done.last_line
