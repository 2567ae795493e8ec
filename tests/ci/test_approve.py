"""The manual job ``nightshift:approve``: who may start it, and what it publishes."""

from __future__ import annotations

import pytest

from gitlab_nightshift.demo.standin_state import DEVELOPER, REPORTER, PipelineJob, User
from tests.ci.conftest import (
    INCLUDE,
    NIGHT,
    SCOPED,
    THREE_JOBS,
    TOKEN,
    Completed,
    Expanded,
    Recorder,
    RunPipeline,
    SampleRepository,
)
from tests.ci.test_night import PIPELINE, PLAN, PUBLISH, WORK, Night, night, result, run

__all__ = ["night"]
APPROVE = "nightshift:approve"
ASKS = {
    "NIGHTSHIFT_POLICY__GATES__WRITE": "require_approval",
    "NIGHTSHIFT_POLICY__WRITABLE_PATHS": "docs/**",
}
BEFORE = {"one-job": {"nightshift": "WARN"}, "three-jobs": {PLAN: "PASS", WORK: "PASS"}}
ASKED = {"one-job": "nightshift", "three-jobs": PUBLISH}
SHAPES = list(ASKED)


def approved_by(night: Night, run_pipeline: RunPipeline, shape: str, level: int) -> Completed:
    """A night whose change needs an approval, and somebody of this role who starts the job."""
    olga = User(999, "olga", "Olga")
    night.demo.project.members[olga.id] = level
    here = night.demo.checkout
    night.demo.project.jobs.append(
        PipelineJob(9, int(PIPELINE), APPROVE, here, user=olga, status="running")
    )
    job = {"CI_JOB_ID": "9", "CI_JOB_MANUAL": "true", "GITLAB_USER_LOGIN": "olga"}
    return run(night, run_pipeline, shape, manual=APPROVE, **ASKS, **job)


@pytest.mark.parametrize("shape", SHAPES)
def test_approval_publishes_what_was_kept(
    shape: str, night: Night, run_pipeline: RunPipeline
) -> None:
    done = approved_by(night, run_pipeline, shape, DEVELOPER)
    assert done.jobs == {**BEFORE[shape], ASKED[shape]: "WARN", APPROVE: "PASS"}, done.log
    asked = result(done, ASKED[shape])
    assert (asked["outcome"], asked["error_code"]) == ("APPROVAL_REQUIRED", "E_APPROVAL_REQUIRED")
    [opened] = night.demo.project.merge_requests
    assert result(done, APPROVE)["mr_url"] == opened.web_url
    assert "with the approval of `olga`" in str(opened.description)


def test_whoever_may_not_approve_publishes_nothing(night: Night, run_pipeline: RunPipeline) -> None:
    done = approved_by(night, run_pipeline, "one-job", REPORTER)
    assert done.jobs == {"nightshift": "WARN", APPROVE: "WARN"}, done.log
    assert "olga has less than the role Developer" in done.log
    assert night.demo.project.merge_requests == []
    assert night.demo.project.pushes == []


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_published_before_somebody_starts_it(
    shape: str, night: Night, run_pipeline: RunPipeline
) -> None:
    done = run(night, run_pipeline, shape, **ASKS)
    assert done.jobs == {**BEFORE[shape], ASKED[shape]: "WARN"}, done.log
    assert done.status == 0
    assert night.demo.project.pushes == []


# --- the template alone -------------------------------------------------------------------------


@pytest.mark.parametrize("include", [INCLUDE, THREE_JOBS])
def test_job_waits_for_a_person_and_nothing_for_it(
    include: str, expanded: Expanded, sample_repository: SampleRepository
) -> None:
    job = expanded(sample_repository(include))[APPROVE]
    assert (job["when"], job["allow_failure"]) == ("manual", True)
    assert job["environment"] == {"name": "nightshift/approve", "action": "access"}
    assert [need["artifacts"] for need in job["needs"]] == [False, False]
    assert "dotenv" not in job["artifacts"]["reports"]


@pytest.mark.parametrize(
    ("include", "source"), [(INCLUDE, "nightshift"), (THREE_JOBS, "nightshift:work")]
)
def test_job_takes_the_bundle_of_the_job_that_ran_agents(
    include: str,
    source: str,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    scoped = (
        {**SCOPED, "GITLAB_TOKEN": {"nightshift*": TOKEN}}
        if source[10:]
        else {"GITLAB_TOKEN": {"*": TOKEN}}
    )
    done = run_pipeline(
        sample_repository(include),
        "schedule",
        NIGHT,
        programs=nightshift.programs,
        scoped=scoped,
        fresh=True,
        manual=APPROVE,
    )
    assert done.jobs[APPROVE] == "PASS", done.log
    assert nightshift.argv == ["publish", "--approved", "--from-job", source]
    assert nightshift.calls[-1].files == []
    assert not [name for name in nightshift.variables if name.startswith(("SENT_BY", "NIGHT_"))]


def test_token_without_the_scope_is_told(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    repository = sample_repository(THREE_JOBS)
    done = run_pipeline(
        repository, "schedule", NIGHT, programs=nightshift.programs, scoped=SCOPED, manual=APPROVE
    )
    assert done.jobs[APPROVE] == "WARN", done.log
    assert "must match nightshift/approve" in done.log
    assert [call.argv[0] for call in nightshift.calls] == ["plan", "work", "publish"]


@pytest.mark.parametrize(("status", "ended"), [(4, "WARN"), (12, "FAIL")])
def test_only_the_missing_approval_is_a_warning(
    status: int,
    ended: str,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    nightshift.fail_with(status)
    repository = sample_repository(INCLUDE)
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs == {"nightshift": ended}, done.log
