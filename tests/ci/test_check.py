"""The job ``nightshift:check``: off by default, only for merge requests, without a token."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.conftest import (
    INCLUDE,
    NIGHT,
    Expanded,
    Recorder,
    RunPipeline,
    SampleRepository,
    program,
)

CHECK = f"{INCLUDE}    inputs: {{check: true}}\n"
TEAM = "unit-tests:\n  script: [echo tested]\n  rules:\n    - when: always\n"
MERGE_REQUEST = "merge_request_event"


def _git(repository: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=repository, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("include", "source", "runs"),
    [
        (CHECK, MERGE_REQUEST, True),
        (INCLUDE, MERGE_REQUEST, False),
        (CHECK, "push", False),
        (CHECK, "schedule", False),
    ],
)
def test_runs_in_merge_request_pipelines_where_it_is_asked_for(
    include: str,
    source: str,
    runs: bool,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    repository = sample_repository(include + TEAM)
    done = run_pipeline(repository, source, programs=nightshift.programs)
    assert done.jobs == {"unit-tests": "PASS", **({"nightshift:check": "PASS"} if runs else {})}
    assert [call.argv for call in nightshift.calls] == ([["check"]] if runs else [])


def test_no_merge_request_starts_a_night(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    repository = sample_repository(CHECK)
    done = run_pipeline(repository, MERGE_REQUEST, NIGHT, programs=nightshift.programs)
    assert done.jobs == {"nightshift:check": "PASS"}, done.log


def test_it_needs_no_environment_and_sees_the_whole_history(
    expanded: Expanded, sample_repository: SampleRepository
) -> None:
    job = expanded(sample_repository(CHECK))["nightshift:check"]
    assert job["variables"]["GIT_DEPTH"] == "0"
    assert not {"environment", "artifacts", "resource_group", "secrets"} & set(job)


def test_no_agent_is_installed(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    (nightshift.programs / "claude").unlink()
    repository = sample_repository(CHECK)
    done = run_pipeline(repository, MERGE_REQUEST, programs=nightshift.programs)
    assert done.jobs == {"nightshift:check": "PASS"}, done.log  # the npm there would fail


def test_a_cheat_fails_the_merge_request(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, tmp_path: Path
) -> None:
    call = f'#!/bin/sh\nexec {sys.executable} -P -m gitlab_nightshift "$@"\n'
    programs = program(tmp_path / "programs", "nightshift", call).parent
    test = "def test_sum():\n    assert sum([1, 2]) == 3\n"
    repository = sample_repository(CHECK, {"test_sum.py": test})
    base = _git(repository, "rev-parse", "HEAD")
    variables = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    (repository / "README.md").write_text("# Sums\n")
    _git(repository, "add", "README.md")
    _git(repository, "commit", "--quiet", "--message=Describe")
    done = run_pipeline(repository, MERGE_REQUEST, variables, programs=programs)
    assert done.jobs == {"nightshift:check": "PASS"}, done.log
    assert "No red flags" in done.log
    skipped = f"import pytest\n\n\n@pytest.mark.skip\n{test}"
    (repository / "test_sum.py").write_text(skipped)
    _git(repository, "commit", "--quiet", "--all", "--message=Skip")
    done = run_pipeline(repository, MERGE_REQUEST, variables, programs=programs)
    assert done.jobs == {"nightshift:check": "FAIL"}, done.log
    assert "test_sum.py:4  fail  test-skipped" in done.log
