"""The manual job ``nightshift:approve``: who may start it, and what it publishes."""

from __future__ import annotations

from pathlib import Path

from gitlab_nightshift.demo.standin_state import DEVELOPER, User
from tests.ci.conftest import (
    APPROVE,
    CHECK,
    INCLUDE,
    NIGHT,
    SERVED_PROJECT,
    TOKEN,
    Recorder,
    RunPipeline,
    SampleRepository,
    assert_approve_waits,
    expanded,
)
from tests.ci.test_night import PIPELINE, Night, night, result, run
from tests.support.standin_records import PipelineJob, as_full

__all__ = ["night"]
ASKS = {
    "NIGHTSHIFT_POLICY__GATES__WRITE": "require_approval",
    "NIGHTSHIFT_POLICY__WRITABLE_PATHS": "docs/**",
}


def test_a_night_whose_change_was_kept_is_published_with_an_approval(
    night: Night, run_pipeline: RunPipeline
) -> None:
    olga = User(999, "olga", "Olga")
    as_full(night.demo.project).members[olga.id] = DEVELOPER
    here = night.demo.checkout
    as_full(night.demo.project).jobs.append(
        PipelineJob(9, int(PIPELINE), APPROVE, here, user=olga, status="running")
    )
    job = {"CI_JOB_ID": "9", "CI_JOB_MANUAL": "true", "GITLAB_USER_LOGIN": "olga"}
    done = run(night, run_pipeline, "one-job", manual=APPROVE, **ASKS, **job)
    assert done.jobs == {"nightshift": "WARN", APPROVE: "PASS"}, done.log
    asked = result(done, "nightshift")
    assert (asked["outcome"], asked["error_code"]) == ("APPROVAL_REQUIRED", "E_APPROVAL_REQUIRED")
    [opened] = night.demo.project.merge_requests
    assert result(done, APPROVE)["mr_url"] == opened.web_url
    assert "with the approval of `olga`" in str(opened.description)
    assert len(as_full(night.demo.project).pushes) == 1


# --- the template alone -------------------------------------------------------------------------


def test_job_waits_for_a_person_and_nothing_for_it(runner: Path) -> None:
    assert_approve_waits(expanded(CHECK + SERVED_PROJECT))


def test_job_takes_the_bundle_of_the_job_that_ran_agents_and_a_refusal_is_a_warning(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    done = run_pipeline(
        sample_repository(INCLUDE),
        "schedule",
        {**NIGHT, "ENDS_WITH": "run=4 approved=3"},
        programs=nightshift.programs,
        scoped={"GITLAB_TOKEN": {"*": TOKEN}},
        fresh=True,
        manual=APPROVE,
    )
    assert done.jobs == {"nightshift": "WARN", APPROVE: "WARN"}, done.log
    assert done.status == 0
    asked, approved = nightshift.calls
    assert asked.argv == ["run"]
    jobs = ["--from-job", "nightshift", "--notary-job", "nightshift"]
    assert approved.argv == ["publish", "--approved", *jobs]
    assert approved.files == []
    assert not [name for name in approved.variables if name.startswith(("SENT_BY", "NIGHT_"))]
