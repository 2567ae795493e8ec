"""``nightshift report`` with the GitLab stand-in."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.demo.standin_state import StandinMergeRequest
from gitlab_nightshift.gitlab.marker import Marker, write_marker
from tests.support.standin_records import PipelineJob, StandinPipeline
from tests.support.world import Done, World, world


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as shop:
        yield shop


def add_night(shop: World, number: int, result: Any, name: str = "nightshift") -> None:
    """Add a scheduled pipeline, whose job left this ``result``; None for expired artifacts."""
    project, folder = shop.project, shop.folder / f"artifacts-{number}"
    folder.mkdir()
    if result is not None:
        (folder / "nightshift").mkdir()
        text = result if isinstance(result, str) else json.dumps(result)
        (folder / "nightshift/result.json").write_text(text)
    url = f"{project.web_url}/-/pipelines/{number}"
    user = shop.gitlab.users[0]
    pipeline = StandinPipeline(number, "main", "a" * 40, url, user, {}, "schedule")
    project.pipelines.append(replace(pipeline, created_at="2999-01-01T02:00:00Z"))
    project.jobs.append(PipelineJob(number * 10, number, name, folder))


def add_merge_request(shop: World, iid: int, state: Any, category: str = "tests") -> None:
    project = shop.project
    merge_request = StandinMergeRequest(
        70000 + iid,
        iid,
        f"{project.web_url}/-/merge_requests/{iid}",
        shop.gitlab.users[0],
        f"night-shift/x{iid}",
        "main",
        f"[night-shift/{category}] Idea {iid}",
        write_marker(Marker(str(iid), category, "f" * 16, ())),
        labels=["night-shift"],
        sha=shop.sha,
        source_project_id=project.id,
        created_at="2999-01-01T02:00:00Z",
        updated_at="2999-01-01T02:00:00Z",
    )
    merge_request.change_state(state)
    project.merge_requests.append(merge_request)


def report(shop: World, *args: str) -> Done:
    return shop.nightshift("report", *args)


def read_json(shop: World, *args: str) -> Any:
    done = report(shop, "--json", "--output", "-", *args)
    assert (done.exit_status, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_nights_and_merge_requests_of_a_project(shop: World) -> None:
    cost = {"outcome": "MR_CREATED", "total_cost_usd": 2.0, "started_at": "2026-11-16T02:00:00Z"}
    add_night(shop, 11, cost)
    add_night(shop, 12, {**cost, "outcome": "NO_IMPROVEMENT", "total_cost_usd": 1.0})
    add_night(shop, 13, cost, name="build")  # another schedule's
    add_merge_request(shop, 1, "merged")
    add_merge_request(shop, 2, "closed", "docs")
    history = read_json(shop)
    assert (history["name"], history["nights"], history["cost_usd"]) == ("acme/shop", 2, 3.0)
    assert history["cost_per_merged_usd"] == 3.0
    assert history["outcomes"] == {"NO_IMPROVEMENT": 1, "MR_CREATED": 1}
    assert [each["name"] for each in history["categories"]] == ["docs", "tests"]
    assert history["total"]["acceptance"] == 0.5
    assert read_json(shop, "--group", "acme")["nights"] == 2


@pytest.mark.parametrize("lost", [None, "<html>", "[1]", '{"total_cost_usd": "free"}', "[" * 99999])
def test_missing_and_invalid_results_are_not_known(shop: World, lost: str | None) -> None:
    add_night(shop, 11, lost)
    add_merge_request(shop, 1, "merged")
    history = read_json(shop)
    assert (history["nights"], history["nights_known"], history["cost_usd"]) == (1, 0, None)
    assert history["outcomes"] == {"not known": 1}


def test_the_page_is_written_to_the_given_file(shop: World) -> None:
    add_merge_request(shop, 1, "merged")
    done = report(shop, "--output", "public/index.html")
    assert (done.exit_status, done.stdout) == (0, "public/index.html\n")
    page = (shop.checkout / "public/index.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "Nights of acme/shop" in page
    assert report(shop).stdout == "nightshift-history.html\n"


def test_an_error_is_one_line(shop: World) -> None:
    for args, words in (
        (("--days", "0"), "--days 0: expected a number from 1 to 3650"),
        (("--group", "nowhere"), "--group nowhere: GitLab has none, or this token does not see it"),
        (("--output", "/proc/none/x.html"), "--output /proc/none/x.html: "),
    ):
        done = report(shop, *args)
        assert done.exit_status != 0
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
    done = shop.nightshift("report", GITLAB_TOKEN="")
    assert (done.exit_status, "read_api" in done.stderr) == (2, True)


def test_without_the_nights_the_merge_requests_are_shown(shop: World) -> None:
    add_merge_request(shop, 1, "merged")
    shop.gitlab.fail_next("GET", "/pipelines$", 403, {"message": "403 Forbidden"})
    history = read_json(shop)
    assert history["total"]["merged"] == 1
    assert "the nights of acme/shop" in history["history"]["unknown"][0]


def test_a_night_without_artifacts_is_read_from_the_dashboard(shop: World) -> None:
    """Unless somebody has edited it; then the night is not known."""
    shop.env["NIGHTSHIFT_LOG_ISSUE"] = "auto"
    shop.nightshift("run", CI_PIPELINE_ID="11", NIGHTSHIFT_ENABLED="false")
    add_night(shop, 11, None)
    add_night(shop, 12, None)
    history = read_json(shop)
    assert history["outcomes"] == {"SKIPPED": 1, "not known": 1}
    assert (history["nights_known"], history["cost_usd"]) == (1, 0.0)
    shop.gitlab.fail_next("GET", "/issues$", 403, {"message": "403 Forbidden"})
    assert "the dashboard of" in read_json(shop)["history"]["unknown"][-1]
    [issue] = shop.project.issues
    issue.description = (issue.description or "").replace('"SKIPPED"', '"FAILED"')
    assert read_json(shop)["outcomes"] == {"not known": 2}
