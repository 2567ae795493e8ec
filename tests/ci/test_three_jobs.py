"""The shape of three jobs: who has the token, what passes between them, what ends the night."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.ci.conftest import (
    KEY,
    NIGHT,
    SCOPED,
    TEMPLATE,
    THREE_JOBS,
    TOKEN,
    Expanded,
    Recorder,
    RunPipeline,
    SampleRepository,
)

PLAN, WORK, PUBLISH = JOBS = ("nightshift:plan", "nightshift:work", "nightshift:publish")


def test_expanded_jobs(expanded: Expanded, sample_repository: SampleRepository) -> None:
    jobs = expanded(sample_repository(THREE_JOBS))
    environment = {"name": "nightshift", "action": "access"}
    assert [jobs[name].get("environment") for name in JOBS] == [environment, None, environment]
    assert [jobs[name]["artifacts"].get("paths") for name in JOBS] == [
        ["nightshift/plan.*"],
        ["nightshift/"],
        ["nightshift/"],
    ]
    for job in (jobs[name] for name in JOBS):
        assert job["resource_group"] == "nightshift"
        assert job["interruptible"] is False
        assert job["variables"]["GIT_STRATEGY"] == "clone"
        assert job["artifacts"]["access"] == "developer"
        assert job["artifacts"]["when"] == "always"


def test_nothing_of_the_work_job_reaches_the_next_by_itself(
    expanded: Expanded, sample_repository: SampleRepository
) -> None:
    """Neither files nor variables: the program fetches the bundle."""
    jobs = expanded(sample_repository(THREE_JOBS))
    assert "reports" not in jobs[WORK]["artifacts"]
    assert "dotenv" in jobs[PUBLISH]["artifacts"]["reports"]
    [need] = jobs[PUBLISH]["needs"]
    assert (need["job"], need["artifacts"]) == (WORK, False)


def test_only_work_lacks_the_token_and_only_work_gets_a_file(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    done = run_pipeline(
        sample_repository(THREE_JOBS),
        "schedule",
        NIGHT,
        programs=nightshift.programs,
        scoped=SCOPED,
        fresh=True,
    )
    assert done.jobs == dict.fromkeys(JOBS, "PASS"), done.log
    plan, work, publish = nightshift.calls
    assert plan.argv == ["plan"]
    assert work.argv == ["work"]
    assert publish.argv == ["publish", "--from-job", WORK]
    tokens = [call.variables.get("GITLAB_TOKEN") for call in nightshift.calls]
    assert tokens == [TOKEN, None, TOKEN]
    assert not [name for name, value in work.variables.items() if TOKEN in value]
    assert work.variables["ANTHROPIC_API_KEY"] == KEY
    assert [call.files for call in nightshift.calls] == [[], ["plan.json"], []]
    assert not [name for name in publish.variables if name.startswith(("SENT_BY", "NIGHT_"))]


def test_no_agent_is_installed_beside_the_token(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    (nightshift.programs / "claude").unlink()
    variables = {**NIGHT, "NIGHTSHIFT_AGENT_PACKAGE": "an-agent"}
    repository = sample_repository(THREE_JOBS)
    done = run_pipeline(
        repository, "schedule", variables, programs=nightshift.programs, scoped=SCOPED
    )
    assert done.jobs == {PLAN: "PASS", WORK: "FAIL"}, done.log
    assert re.findall(r"^(\S+) +> Installing (\S+)", done.log, re.MULTILINE) == [(WORK, "an-agent")]


@pytest.mark.parametrize(
    ("scope", "jobs", "commands"),
    [
        ("*", {PLAN: "PASS", WORK: "FAIL"}, ["plan"]),
        ("production", {PLAN: "FAIL"}, []),
    ],
)
def test_a_token_with_another_scope_ends_the_night_before_it_costs(
    scope: str,
    jobs: dict[str, str],
    commands: list[str],
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    repository = sample_repository(THREE_JOBS)
    scoped = {"GITLAB_TOKEN": {scope: TOKEN}}
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs, scoped=scoped)
    assert done.jobs == jobs, done.log
    assert [call.argv[0] for call in nightshift.calls] == commands
    assert "environment scope" in done.log


def test_a_failed_night_is_not_published_and_its_artifacts_are_kept(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    nightshift.fail_with(5, "work")
    repository = sample_repository(THREE_JOBS)
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs, scoped=SCOPED)
    assert done.jobs == {PLAN: "PASS", WORK: "FAIL"}
    assert (done.artifacts(WORK) / "nightshift/bundle/bundle.json").exists()
    assert not list(done.artifacts(WORK).rglob(".gitlab-ci-reports"))


@pytest.fixture
def template_address() -> Iterator[str]:
    """The template on a web server."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(TEMPLATE.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{TEMPLATE.name}"
        server.shutdown()
        thread.join()


def test_remote_include_with_both_inputs(
    template_address: str, expanded: Expanded, sample_repository: SampleRepository
) -> None:
    include = (
        f"include:\n  - remote: {template_address}\n    inputs: {{shape: three-jobs, stage: a}}\n"
    )
    jobs = expanded(sample_repository(f"stages: [a]\n{include}"))
    assert {jobs[name]["stage"] for name in JOBS} == {"a"}
    assert jobs["nightshift"]["rules"][0]["if"] == '"three-jobs" != "one-job"'
