"""The job ``nightshift:history``: off by default, after scheduled nights, failed ones too."""

from pathlib import Path

import yaml

from tests.ci.conftest import CHECK, INCLUDE, SERVED_PROJECT, expanded, listed

ASKED = CHECK.replace("check: true", 'history: true, schedule_description: "Night shift"')
CASES = {
    "after-a-night": {"NIGHTSHIFT": "true", "CI_PIPELINE_SOURCE": "schedule"},
    "other-schedule": {"NIGHTSHIFT": "", "CI_PIPELINE_SOURCE": "schedule"},
    "described": {
        "CI_PIPELINE_SOURCE": "schedule",
        "CI_PIPELINE_SCHEDULE_DESCRIPTION": "Night shift",
    },
    "push": {"NIGHTSHIFT": "true", "CI_PIPELINE_SOURCE": "push"},
}


def test_runs_after_scheduled_nights_where_it_is_asked_for(runner: Path) -> None:
    jobs = {
        name: {"extends": "nightshift:history", "variables": variables}
        for name, variables in CASES.items()
    }
    cases = yaml.safe_dump(jobs)
    assert ASKED != CHECK
    asked, unasked = listed(ASKED + cases), listed(INCLUDE + cases)
    assert [asked[name] for name in CASES] == ["always", "never", "always", "never"]
    assert {unasked[name] for name in CASES} == {"never"}


def test_it_makes_a_page_that_no_gitlab_refuses(runner: Path) -> None:
    job = expanded(ASKED + SERVED_PROJECT)["nightshift:history"]
    assert "pages" not in job, "GitLab before 17.6 would refuse the whole file"
    assert job["artifacts"]["paths"] == ["public/"]
    assert job["script"] == ["nightshift report --output public/index.html || exit $?"]
    assert {each["job"] for each in job["needs"]} == {"nightshift"} | {"nightshift:publish"}
    assert job["allow_failure"] is True
