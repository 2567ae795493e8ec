"""The jobs for merge requests, ``nightshift:check`` and ``nightshift:rehearse``: off by default."""

import json
import subprocess
import sys
from pathlib import Path

import yaml

from gitlab_nightshift.onboarding.project_files import TemplateInclude, add_include
from tests.ci.conftest import (
    CHECK,
    INCLUDE,
    NIGHT,
    SERVED_PROJECT,
    TEAM,
    Recorder,
    RunPipeline,
    SampleRepository,
    expanded,
    listed,
    program,
    real_nightshift,
)

MERGE_REQUEST = "merge_request_event"


def _git(repository: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=repository, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_runs_in_merge_request_pipelines_where_it_is_asked_for(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    """It installs no agent (the npm there would fail), and no merge request starts a night."""
    (nightshift.programs / "claude").unlink()
    repository = sample_repository(CHECK + TEAM)
    done = run_pipeline(repository, MERGE_REQUEST, NIGHT, programs=nightshift.programs)
    assert done.jobs == {"unit-tests": "PASS", "nightshift:check": "PASS"}, done.log
    assert [call.argv for call in nightshift.calls] == [
        ["check", "--format", "codequality=gl-code-quality-report.json"]
    ]


def test_runs_nowhere_else(runner: Path) -> None:
    def cases(*sources: str) -> str:
        jobs = {
            source: {"extends": "nightshift:check", "variables": {"CI_PIPELINE_SOURCE": source}}
            for source in sources
        }
        return yaml.safe_dump(jobs)

    asked = listed(CHECK + cases(MERGE_REQUEST, "push", "schedule"))
    assert [asked[name] for name in (MERGE_REQUEST, "push", "schedule")] == [
        *("on_success", "never", "never")
    ]
    assert listed(INCLUDE + cases(MERGE_REQUEST))[MERGE_REQUEST] == "never"


def test_it_needs_no_environment_and_sees_the_whole_history(runner: Path) -> None:
    job = expanded(CHECK + SERVED_PROJECT)["nightshift:check"]
    assert job["variables"]["GIT_DEPTH"] == "0"
    assert not {"environment", "resource_group", "secrets"} & set(job)
    reports = {"codequality": "gl-code-quality-report.json"}
    assert (job["artifacts"]["when"], job["artifacts"]["reports"]) == ("always", reports)


def test_a_cheat_fails_the_merge_request(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    test = "def test_sum():\n    assert sum([1, 2]) == 3\n"
    repository = sample_repository(CHECK, {"test_sum.py": test})
    base = _git(repository, "rev-parse", "HEAD")
    variables = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    (repository / "README.md").write_text("# Sums\n")
    _git(repository, "add", "README.md")
    _git(repository, "commit", "--quiet", "--message=Describe")
    with real_nightshift(programs):
        done = run_pipeline(repository, MERGE_REQUEST, variables, programs=programs)
    assert done.jobs == {"nightshift:check": "PASS"}, done.log
    assert "No red flags" in done.log
    skipped = f"import pytest\n\n\n@pytest.mark.skip\n{test}"
    (repository / "test_sum.py").write_text(skipped)
    _git(repository, "commit", "--quiet", "--all", "--message=Skip")
    call = f'#!/bin/sh\nexec {sys.executable} -P -m gitlab_nightshift "$@"\n'
    program(programs, "nightshift", call)
    done = run_pipeline(repository, MERGE_REQUEST, variables, programs=programs)
    assert done.jobs == {"nightshift:check": "FAIL"}, done.log
    assert "test_sum.py:4  fail  test-skipped" in done.log
    reports = list(repository.rglob("gl-code-quality-report.json"))
    found = [issue for report in reports for issue in json.loads(report.read_text())]
    assert {(issue["check_name"], issue["severity"]) for issue in found} == {
        ("test-skipped", "major")
    }


def test_a_rehearsal_runs_where_the_settings_change(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    """Without the token: no merge request's pipeline has a protected variable."""
    asked = f"{INCLUDE}    inputs: {{rehearse: true}}\n"
    job = expanded(asked + SERVED_PROJECT)["nightshift:rehearse"]
    [never, rule] = job["rules"]
    assert (never["when"], rule["changes"]) == ("never", ["nightshift.yaml", ".gitlab-ci.yml"])
    assert job["resource_group"] != expanded(asked + SERVED_PROJECT)["nightshift"]["resource_group"]
    own = "rehearsal:\n  extends: nightshift:rehearse\n  rules: [{when: always}]\n"
    done = run_pipeline(
        *(sample_repository(asked + own), MERGE_REQUEST, {"ENDS_WITH": "run=5"}),
        programs=nightshift.programs,
    )
    assert done.jobs == {"rehearsal": "WARN"}, done.log
    assert nightshift.argv == ["run", "--rehearse", "--dry-run"]
    assert listed(INCLUDE + SERVED_PROJECT)["nightshift:rehearse"] == "never"


def test_what_init_writes_for_the_tests_reaches_the_rehearsal_and_no_job_with_the_token() -> None:
    wanted = TemplateInclude(
        "a/b", "v1", prepare=("npm ci",), variables={"GOCACHE": "/opt/gocache"}
    )
    added = add_include("", wanted, "ci.yml")
    own = added[added.index("\n# What the night's tests need") :]
    for shape in ("one-job", "three-jobs"):
        asked = f"{INCLUDE}    inputs: {{rehearse: true, shape: {shape}}}\n"
        jobs = expanded(asked + SERVED_PROJECT + own)
        for name in ("nightshift", "nightshift:work", "nightshift:rehearse"):
            assert jobs[name]["before_script"][-1] == "npm ci", name
            assert jobs[name]["variables"]["GOCACHE"] == "/opt/gocache"
        for name in ("nightshift:plan", "nightshift:publish", "nightshift:approve"):
            assert "npm ci" not in jobs[name]["before_script"], name
