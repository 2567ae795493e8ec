"""The control project's template: valid, and its jobs start the nights of 50 projects."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import gitlab_nightshift
from tests.ci.conftest import (
    ROOT,
    Completed,
    expanded,
    invalid,
    listed,
    make_repository,
    program,
    run_in,
)
from tests.fleet.control_project import ControlProject
from tests.support.fleet_standin import PLAN_TOKEN, RUN_TOKEN, FleetStandin
from tests.support.standin_records import as_full

TEMPLATE = ROOT / "templates/fleet.yml"
CONTENT = TEMPLATE.read_text().partition("\n---\n")[2]
FILES = {
    "templates/fleet.yml": TEMPLATE.read_text(),
    "templates/nightshift.yml": (ROOT / "templates/nightshift.yml").read_text(),
}
INCLUDE = "include:\n  - local: templates/fleet.yml\n    inputs: {shards: 2}\n"
JOBS = ("plan", "run", "report", "init", "rotate")
TOKENS = {"fleet/plan": PLAN_TOKEN, "fleet/run": RUN_TOKEN}


@pytest.fixture
def gitlab(tmp_path: Path) -> Iterator[FleetStandin]:
    with FleetStandin(tmp_path / "gitlab") as standin:
        standin.add_fleet("acme", 50)
        yield standin
        assert standin.errors == []


def run(tmp_path: Path, gitlab: FleetStandin, **variables: str) -> Completed:
    """A pipeline of the control project, with the program itself and a token for each job."""
    control = ControlProject(tmp_path / "control", gitlab.url)
    control.write_fleet()
    text = (control.folder / "fleet.yaml").read_text()
    repository = make_repository(tmp_path, INCLUDE, {**FILES, "fleet.yaml": text})
    nightshift = Path(sys.executable).with_name("nightshift")
    programs = program(tmp_path / "programs", "nightshift", f'#!/bin/sh\nexec {nightshift} "$@"\n')
    given = {"CI_SERVER_URL": gitlab.url, "CI_PROJECT_ID": "1", "FLEET": "run", **variables}
    return run_in(
        *(tmp_path, repository, "schedule", given),
        programs=programs.parent,
        scoped={"GITLAB_TOKEN": TOKENS},
        fresh=True,
    )


def test_the_template_is_valid_for_gitlab_and_a_mistake_is_found(tmp_path: Path) -> None:
    text = CONTENT.replace("$[[ inputs.shards ]]", "2")
    shown = re.sub(r"^\.(fleet\S*:)$", r"shown-\1", text, flags=re.MULTILINE)
    valid, broken = tmp_path / "valid.yml", tmp_path / "broken.yml"
    valid.write_text(shown)
    broken.write_text(shown.replace("max: 2", "max: twice"))
    assert invalid(valid, broken) == {broken}


def test_the_pages_example_is_valid_and_includes_it(tmp_path: Path) -> None:
    page = (ROOT / "docs/fleet.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```yaml\n( *# .gitlab-ci.yml\n.*?)```", page, re.DOTALL)
    file = tmp_path / "example.yml"
    file.write_text(textwrap.dedent(example))
    assert invalid(file) == set()
    assert "file: /templates/fleet.yml\n" in example
    assert f"ref: v{gitlab_nightshift.__version__}\n" in example


def test_its_version_is_the_programs_own() -> None:
    spec = yaml.safe_load(TEMPLATE.read_text().partition("\n---\n")[0])["spec"]["inputs"]
    assert spec["version"]["default"] == gitlab_nightshift.__version__
    assert all(each["description"] for each in spec.values())


def test_each_job_has_a_token_of_its_own_and_no_agent(runner: Path) -> None:
    found = {name: job for name, job in _expand().items() if name.startswith("fleet:")}
    scopes = {name.partition(":")[2]: job["environment"]["name"] for name, job in found.items()}
    switch, init = "fleet/switch", "fleet/init"
    assert scopes == {
        **{name: f"fleet/{name}" for name in JOBS},
        **{"stop": switch, "start": switch, "init:apply": init},
    }
    assert all(each["environment"]["action"] == "access" for each in found.values())


def test_a_schedule_starts_what_it_is_for_and_a_push_nothing(runner: Path) -> None:
    """But for the switch, which waits for a person in each of them."""
    cases = {
        **{f"as-{name}": (name, "schedule", name) for name in JOBS},
        "pushed": ("run", "push", "run"),
        "other-schedule": ("plan", "schedule", "report"),
    }
    jobs = {
        name: {
            "extends": f"fleet:{job}",
            "variables": {"FLEET": kind, "CI_PIPELINE_SOURCE": source},
            "needs": [],
        }
        for name, (job, source, kind) in cases.items()
    }
    jobs["as-plan"]["variables"] = {"FLEET": "run", "CI_PIPELINE_SOURCE": "schedule"}
    whens = {
        name.partition(":")[0]: when  # a shard's is "as-run: [1/2]"
        for name, when in listed(INCLUDE + yaml.safe_dump(jobs), tuple(FILES.items())).items()
    }
    assert {name: whens[name] for name in cases} == {
        **{f"as-{name}": "on_success" for name in JOBS},
        "pushed": "never",
        "other-schedule": "never",
    }


def test_a_pipeline_starts_the_nights_of_50_projects(
    runner: Path, gitlab: FleetStandin, tmp_path: Path
) -> None:
    done = run(tmp_path, gitlab)
    assert done.status == 0, done.log
    assert set(done.jobs.values()) == {"PASS"}, done.log
    assert "50 start, 0 later" in done.log
    assert [len(as_full(each).pipelines) for each in gitlab.projects] == [1] * 50
    plays = [each for each in gitlab.requests if each.path.endswith("/play")]
    assert len(plays) == 50


def test_a_project_that_cannot_be_started_is_a_warning(
    runner: Path, gitlab: FleetStandin, tmp_path: Path
) -> None:
    as_full(gitlab.projects[7]).schedules.clear()
    done = run(tmp_path, gitlab)
    assert done.status == 0, done.log
    assert "WARN" in done.jobs.values(), done.log
    assert sum(len(as_full(each).pipelines) for each in gitlab.projects) == 49


def _expand() -> dict[str, Any]:
    return expanded(INCLUDE, tuple(FILES.items()))
