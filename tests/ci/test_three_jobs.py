"""The shape of three jobs: who has the token, what passes between them, what ends the night."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.ci.conftest import (
    APPROVE,
    KEY,
    NIGHT,
    SCOPED,
    TEMPLATE,
    THREE_JOBS,
    TOKEN,
    Child,
    Completed,
    Ran,
    Recorder,
    assert_approve_waits,
    expanded,
    make_repository,
    recorder,
    run_children,
    run_in,
)

PLAN, WORK, NOTARY, PUBLISH = JOBS = (
    *("nightshift:plan", "nightshift:work", "nightshift:notary", "nightshift:publish"),
)


ALL = {"nightshift*": TOKEN}
"""The scope that brings the token to the job for approvals too."""


@pytest.fixture(scope="module")
def template_address() -> Iterator[str]:
    """The template on a web server."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(TEMPLATE.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{TEMPLATE.name}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def jobs(template_address: str, runner: Path) -> dict[str, Any]:
    """The template by a remote include, with all its inputs."""
    inputs = "{shape: three-jobs, stage: a, check: true}"
    include = f"include:\n  - remote: {template_address}\n    inputs: {inputs}\n"
    return expanded(f"stages: [a]\n{include}")


def test_remote_include_with_inputs(jobs: dict[str, Any]) -> None:
    assert {jobs[name]["stage"] for name in JOBS} == {"a"}
    assert jobs["nightshift"]["rules"][0]["if"] == '"three-jobs" != "one-job"'


def test_expanded_jobs(jobs: dict[str, Any]) -> None:
    environment = {"name": "nightshift", "action": "access"}
    found = [jobs[name].get("environment") for name in JOBS]
    assert found == [environment, None, None, environment]
    assert [jobs[name]["artifacts"].get("paths") for name in JOBS] == [
        ["nightshift/plan.*"],
        ["nightshift/"],
        ["nightshift/notary.json", "nightshift/upkeep/notary.json", "nightshift/logs/"],
        ["nightshift/"],
    ]
    for job in (jobs[name] for name in JOBS):
        assert job["resource_group"] == "nightshift"
        assert job["interruptible"] is False
        assert job["variables"]["GIT_STRATEGY"] == "clone"
        assert job["artifacts"]["access"] == "developer"
        assert job["artifacts"]["when"] == "always"


def test_nothing_of_the_work_job_reaches_the_next_by_itself(jobs: dict[str, Any]) -> None:
    """Neither files nor variables: the program fetches the bundle, and what the notary saw."""
    for name in (WORK, NOTARY):
        assert "reports" not in jobs[name]["artifacts"]
    assert "dotenv" in jobs[PUBLISH]["artifacts"]["reports"]
    needs = [(each["job"], each["artifacts"]) for each in jobs[PUBLISH]["needs"]]
    assert needs == [(WORK, False), (NOTARY, False)]
    [plan, work] = jobs[NOTARY]["needs"]
    assert plan["job"] == PLAN and plan.get("artifacts", True)
    assert (work["job"], work["artifacts"]) == (WORK, False)
    assert_approve_waits(jobs)


def test_work_and_notary_lack_the_token_and_get_the_plan_alone(
    runner: Path, tmp_path: Path, nightshift: Recorder
) -> None:
    """Of the night's jobs and of the one for an approval, which publish asks for."""
    variables = {**NIGHT, "ENDS_WITH": "publish=4"}
    repository = make_repository(tmp_path, THREE_JOBS)
    done = run_in(
        *(tmp_path, repository, "schedule", variables),
        programs=nightshift.programs,
        scoped={**SCOPED, "GITLAB_TOKEN": ALL},
        fresh=True,
        manual=APPROVE,
    )
    passed = dict.fromkeys((PLAN, WORK, NOTARY, APPROVE), "PASS")
    assert done.jobs == {**passed, PUBLISH: "WARN"}, done.log
    plan, work, notary, publish, approve = nightshift.calls
    assert plan.argv == ["plan"]
    assert work.argv == ["work"]
    assert notary.argv == ["notary", "--from-job", WORK]
    both = ["--from-job", WORK, "--notary-job", NOTARY]
    assert publish.argv == ["publish", *both]
    assert approve.argv == ["publish", "--approved", *both]
    tokens = [call.variables.get("GITLAB_TOKEN") for call in nightshift.calls]
    assert tokens == [TOKEN, None, None, TOKEN, TOKEN]
    for call in (work, notary):
        assert not [name for name, value in call.variables.items() if TOKEN in value]
    assert work.variables["ANTHROPIC_API_KEY"] == KEY
    files = [call.files for call in nightshift.calls]
    assert files == [[], ["plan.json"], ["plan.json"], [], []]
    for call in (notary, publish, approve):
        assert not [name for name in call.variables if name.startswith(("SENT_BY", "NIGHT_"))]


NO_AGENT = {**NIGHT, "NIGHTSHIFT_AGENT_PACKAGE": ""}
HALTING = THREE_JOBS + "nightshift:work: {allow_failure: false}\n"
"""The local runner goes on after every failure where there are ``exit_codes``; GitLab does not."""
CHILDREN = {
    "agent missing": Child(HALTING, variables={**NIGHT, "NIGHTSHIFT_AGENT_PACKAGE": "an-agent"}),
    "token everywhere": Child(HALTING, variables={**NO_AGENT, "GITLAB_TOKEN": TOKEN}),
    "token nowhere": Child(THREE_JOBS, variables={**NO_AGENT, "GITLAB_TOKEN": ""}),
    "scope without approve": Child(THREE_JOBS, variables=NO_AGENT),
    "incomplete": Child(THREE_JOBS, variables={**NO_AGENT, "ENDS_WITH": "work=13 publish=13"}),
    "failed": Child(HALTING, variables={**NO_AGENT, "ENDS_WITH": "work=5"}),
}


Runs = tuple[dict[str, Ran], Completed]


@pytest.fixture(scope="module")
def ran(runner: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("three-jobs")
    nightshift = recorder(folder)
    (nightshift.programs / "claude").unlink()
    return run_children(
        folder, CHILDREN, nightshift=nightshift, scoped=SCOPED, fresh=True, manual=APPROVE
    )


def test_no_agent_is_installed_beside_the_token(ran: Runs) -> None:
    found = ran[0]["agent missing"]
    passed = dict.fromkeys((PLAN, NOTARY, PUBLISH), "PASS")
    assert found.jobs == {**passed, WORK: "FAIL"}, found.log
    assert re.findall(r"^(\S+) +> Installing (\S+)", found.log, re.MULTILINE) == [
        (WORK, "an-agent")
    ]


@pytest.mark.parametrize(
    ("name", "jobs", "commands"),
    [
        (
            "token everywhere",
            {PLAN: "PASS", WORK: "FAIL", NOTARY: "FAIL", PUBLISH: "PASS"},
            ["plan", "publish"],
        ),
        ("token nowhere", {PLAN: "FAIL"}, []),
    ],
)
def test_a_token_with_another_scope_ends_the_night_before_it_costs(
    name: str, jobs: dict[str, str], commands: list[str], ran: Runs
) -> None:
    found = ran[0][name]
    assert found.jobs == jobs, found.log
    assert [call.argv[0] for call in found.calls] == commands
    assert "environment scope" in found.log


def test_an_approval_without_the_token_is_told(ran: Runs) -> None:
    found = ran[0]["scope without approve"]
    assert found.jobs == {**dict.fromkeys(JOBS, "PASS"), APPROVE: "WARN"}, found.log
    assert "must match nightshift/approve" in found.log
    assert [call.argv[0] for call in found.calls] == ["plan", "work", "notary", "publish"]


def test_a_night_of_which_a_part_did_no_work_is_a_warning_and_goes_on(ran: Runs) -> None:
    found = ran[0]["incomplete"]
    warned = dict.fromkeys((WORK, PUBLISH, APPROVE), "WARN")
    assert found.jobs == {**dict.fromkeys((PLAN, NOTARY), "PASS"), **warned}, found.log


def test_a_failed_night_is_reported_and_its_artifacts_are_kept(ran: Runs) -> None:
    found = ran[0]["failed"]
    passed = dict.fromkeys((PLAN, NOTARY, PUBLISH), "PASS")
    assert found.jobs == {**passed, WORK: "FAIL"}, found.log
    assert [call.argv[0] for call in found.calls] == ["plan", "work", "notary", "publish"]
    kept = ran[1].artifacts(WORK)
    assert json.loads((kept / "nightshift/bundle/bundle.json").read_text()) == {"of": "failed"}
    assert not list(kept.rglob(".gitlab-ci-reports"))
