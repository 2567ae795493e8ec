"""Links beside the job, as GitLab reads them."""

import json

from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.stages.report.annotations import build_report_url, render_annotations
from tests.support.pages import HOSTILE, URL

PROJECT = "https://gitlab.example.com/acme/shop"


def links(result: RunResult, url: str) -> list[tuple[str, str]]:
    whole = json.loads(render_annotations(result, url))
    assert list(whole) == ["Night shift"]
    assert all(list(row) == ["external_link"] for row in whole["Night shift"])
    found = [row["external_link"] for row in whole["Night shift"]]
    return [(row["label"], row["url"]) for row in found]


def test_report_and_merge_request_are_linked() -> None:
    report = build_report_url(PROJECT, "77", "night shift")
    assert report == f"{PROJECT}/-/jobs/77/artifacts/file/night%20shift/report.html"
    made = RunResult("1", Outcome.MR_CREATED, mr_url=URL)
    assert links(made, report) == [("Report of the night", report), ("Merge request", URL)]


def test_only_addresses_are_linked() -> None:
    for url in ("", "javascript:alert(1)", HOSTILE):
        assert links(RunResult("1", Outcome.FAILED, mr_url=url), "") == []
    assert build_report_url("", "77", "nightshift") == build_report_url(PROJECT, "", "n") == ""
