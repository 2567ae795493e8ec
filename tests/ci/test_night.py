"""A whole night by the template with the real program: GitLab's stand-in, a recorded agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.demo.demo_night import Demo
from tests.ci.conftest import (
    NIGHT,
    STATE,
    TEMPLATE,
    Completed,
    Recorded,
    RunPipeline,
    artifacts_folder,
    program,
    real_nightshift,
)
from tests.support.standin import open_full_demo
from tests.support.standin_records import PipelineJob, as_full

PLAN, WORK, NOTARY, PUBLISH = JOBS = (
    *("nightshift:plan", "nightshift:work", "nightshift:notary", "nightshift:publish"),
)
PIPELINE = "4711"
GIVEN = ("CI_", "GITLAB_USER_", "NIGHTSHIFT_")
SECRETS = ("GITLAB_TOKEN", "CI_JOB_TOKEN")


@dataclass(frozen=True)
class Night:
    """The demo's project with a checkout of it, the programs on PATH, the calls of `nightshift`."""

    demo: Demo
    programs: Path
    calls: list[Recorded]


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    programs = tmp_path / "programs"
    program(programs, "claude", "#!/bin/sh\nexit 97\n")
    (tmp_path / "home").mkdir()
    with (
        real_nightshift(programs) as calls,
        open_full_demo(tmp_path / "left", {"PATH": "/usr/bin:/bin"}) as demo,
    ):
        yield Night(demo, programs, calls)


def run(
    night: Night,
    run_pipeline: RunPipeline,
    shape: str,
    *,
    manual: str = "",
    **more: str,
) -> Completed:
    """The pipeline of one night; every job starts in a copy of the untouched checkout."""
    demo, checkout = night.demo, night.demo.checkout
    # The sample project's own pipeline includes the template from a GitLab that is not there.
    (checkout / STATE).mkdir()
    (checkout / STATE / "night.yml").write_text(TEMPLATE.read_text())
    ran = WORK if shape == "three-jobs" else "nightshift"
    for number, name in enumerate((ran, NOTARY) if ran == WORK else (ran,), 1):
        job = PipelineJob(number, int(PIPELINE), name, artifacts_folder(checkout, name))
        as_full(demo.project).jobs.append(job)
    given = {k: v for k, v in demo.env.items() if k.startswith(GIVEN) and k not in SECRETS}
    scope = "nightshift*" if shape == "three-jobs" else "*"
    return run_pipeline(
        checkout,
        "schedule",
        {
            **{
                **given,
                **NIGHT,
                "CI_PIPELINE_ID": PIPELINE,
                "CI_JOB_TOKEN": demo.env["CI_JOB_TOKEN"],
            },
            **{"no_proxy": "127.0.0.1", **more},
        },
        programs=night.programs,
        scoped={"GITLAB_TOKEN": {scope: demo.env["GITLAB_TOKEN"]}},
        fresh=True,
        inputs={"shape": shape},
        file=f"{STATE}/night.yml",
        manual=manual,
    )


def result(done: Completed, job: str) -> Any:
    return json.loads((done.artifacts(job) / "nightshift/result.json").read_text())


def test_three_jobs(night: Night, run_pipeline: RunPipeline) -> None:
    done = run(night, run_pipeline, "three-jobs")
    assert done.jobs == dict.fromkeys(JOBS, "PASS"), done.log
    [opened] = night.demo.project.merge_requests
    assert result(done, WORK)["outcome"] == "MR_READY"
    assert result(done, PUBLISH)["mr_url"] == opened.web_url
    token = night.demo.env["GITLAB_TOKEN"]
    with_it = [call.argv[0] for call in night.calls if token in "\n".join(call.variables.values())]
    assert [call.argv[0] for call in night.calls] == ["plan", "work", "notary", "publish"]
    assert "This program ran, on commit" in (opened.description or "")
    assert with_it == ["plan", "publish"]
    left = {path.name for path in (done.artifacts(PUBLISH) / "nightshift").iterdir()}
    assert {"report.html", "bundle", "published.json", "junit.xml"} <= left
    assert "logs" not in left
    reports = [
        (done.artifacts(job) / "nightshift/report.html").read_text() for job in (WORK, PUBLISH)
    ]
    assert ["logs/" in report for report in reports] == [True, False]


def test_a_night_that_is_skipped_is_green_and_costs_nothing(
    night: Night, run_pipeline: RunPipeline
) -> None:
    done = run(night, run_pipeline, "three-jobs", NIGHTSHIFT_ENABLED="false")
    assert done.jobs == dict.fromkeys(JOBS, "PASS"), done.log
    assert as_full(night.demo.project).pushes == []
    assert {result(done, job)["outcome"] for job in (WORK, PUBLISH)} == {"SKIPPED"}
    assert result(done, WORK)["beads"] == []
