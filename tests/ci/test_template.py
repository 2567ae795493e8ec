"""The CI template: valid, a night where NIGHTSHIFT asks for one, and nothing anywhere else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import gitlab_nightshift
from gitlab_nightshift.guidance import FALLBACK_ORDER
from tests.ci.conftest import (
    INCLUDE,
    NIGHT,
    ROOT,
    TEMPLATE,
    THREE_JOBS,
    Expanded,
    Recorder,
    RunPipeline,
    SampleRepository,
    check_schema,
    template_text,
)

TEAM = "unit-tests:\n  script:\n    - echo a job of the team\n"
NIGHT_SOURCES = ["schedule", "web", "api", "trigger"]
OTHER_SOURCES = ["push", "merge_request_event", "pipeline", "parent_pipeline", "chat"]


class _Loader(yaml.SafeLoader):
    """YAML with GitLab's `!reference`."""


def _reference(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> list[Any]:
    return list(loader.construct_sequence(node))


_Loader.add_constructor("!reference", _reference)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return dict(yaml.load(template_text(), _Loader))


# --- the file ---------------------------------------------------------------------------------


def unhidden(folder: Path, text: str) -> Path:
    """The template with its hidden jobs shown: the schema lets hidden ones hold anything."""
    path = folder / "unhidden.yml"
    path.write_text(re.sub(r"^\.(nightshift\S*:)$", r"shown-\1", text, flags=re.MULTILINE))
    return path


def test_template_is_valid_for_gitlab(tmp_path: Path) -> None:
    plain = tmp_path / "plain.yml"
    plain.write_text(template_text())
    done = check_schema(plain, unhidden(tmp_path, template_text()))
    assert done.returncode == 0, done.stdout + done.stderr


def test_inputs_have_defaults_and_say_what_they_are() -> None:
    spec = yaml.safe_load(TEMPLATE.read_text().partition("\n---\n")[0])["spec"]
    assert {name: each["default"] for name, each in spec["inputs"].items()} == {
        "shape": "one-job",
        "stage": "test",
        "check": False,
    }
    assert spec["inputs"]["shape"]["options"] == ["one-job", "three-jobs"]
    assert all(each["description"] for each in spec["inputs"].values())


KEYS = ["access: developer", "interruptible: false", "default: [tags]", "action: access"]


@pytest.mark.parametrize("key", KEYS)
def test_schema_check_finds_a_mistake(key: str, tmp_path: Path) -> None:
    broken = template_text().replace(key, key.partition(":")[0] + ": [nonsense]")
    assert check_schema(unhidden(tmp_path, broken)).returncode == 1


def test_template_sets_nothing_for_other_jobs(template: dict[str, Any]) -> None:
    names = set(template) - {"variables"}
    assert all(re.match(r"\.?nightshift(:|$)", name) for name in names), names
    assert all(name.startswith("NIGHTSHIFT") for name in template["variables"])


def test_form_offers_what_the_program_knows(template: dict[str, Any]) -> None:
    form = {k: v for k, v in template["variables"].items() if isinstance(v, dict)}
    assert list(form) == [
        "NIGHTSHIFT",
        "NIGHTSHIFT_CATEGORY",
        "NIGHTSHIFT_DRY_RUN",
        "NIGHTSHIFT_TASK",
    ]
    assert form["NIGHTSHIFT"]["options"] == ["false", "true"]
    assert form["NIGHTSHIFT_CATEGORY"]["options"] == ["", *FALLBACK_ORDER]
    assert form["NIGHTSHIFT_DRY_RUN"]["options"] == ["", "true", "false"]


def test_form_starts_no_night_by_itself_and_overrides_no_setting(template: dict[str, Any]) -> None:
    form = {k: v for k, v in template["variables"].items() if isinstance(v, dict)}
    assert all(field["description"] for field in form.values()), "GitLab hides fields without one"
    assert {name: field["value"] for name, field in form.items()} == {
        "NIGHTSHIFT": "false",
        "NIGHTSHIFT_CATEGORY": "",
        "NIGHTSHIFT_DRY_RUN": "",
        "NIGHTSHIFT_TASK": "",
    }


def test_settings_accept_the_template_as_it_stands(template: dict[str, Any]) -> None:
    from gitlab_nightshift.settings.load import load_settings

    variables = template["variables"].items()
    env = {k: v["value"] if isinstance(v, dict) else v for k, v in variables}
    assert load_settings(env).model_dump() == load_settings({}).model_dump()


def test_installed_versions_are_this_one_and_the_tested_agent(template: dict[str, Any]) -> None:
    tools = json.loads((ROOT / "tests/node/package.json").read_text())["devDependencies"]
    agent = "@anthropic-ai/claude-code"
    assert template["variables"]["NIGHTSHIFT_VERSION"] == gitlab_nightshift.__version__
    assert template["variables"]["NIGHTSHIFT_AGENT_PACKAGE"] == f"{agent}@{tools[agent]}"


def _minutes(text: str) -> int:
    hours, minutes = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?", text).groups(default="0")  # type: ignore[union-attr]
    return 60 * int(hours) + int(minutes)


@pytest.mark.parametrize("name", [".nightshift:job", ".nightshift:with-token"])
def test_script_ends_in_time_for_after_script_and_artifacts(
    name: str, template: dict[str, Any]
) -> None:
    job = template[name]
    left = _minutes(job["timeout"]) - _minutes(job["variables"]["RUNNER_SCRIPT_TIMEOUT"])
    assert 10 <= left <= 30


def test_a_night_is_kept_whole(expanded: Expanded, sample_repository: SampleRepository) -> None:
    job = expanded(sample_repository(INCLUDE))["nightshift"]
    assert job["interruptible"] is False
    assert job["resource_group"] == "nightshift"
    assert job["variables"]["GIT_STRATEGY"] == "clone"
    assert job["artifacts"] == {
        "when": "always",
        "access": "developer",
        "expire_in": "30 days",
        "paths": ["nightshift/"],
        "reports": {"junit": "nightshift/junit.xml", "dotenv": "nightshift/nightshift.env"},
    }


# --- when it runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("source", NIGHT_SOURCES)
def test_runs_where_nightshift_is_true(
    source: str,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    repository = sample_repository(INCLUDE)
    done = run_pipeline(repository, source, NIGHT, programs=nightshift.programs)
    assert done.status == 0, done.log
    assert done.jobs == {"nightshift": "PASS"}
    assert nightshift.argv == ["run"]
    assert nightshift.variables["CI_PIPELINE_SOURCE"] == source
    assert nightshift.variables["CI_PROJECT_DIR"] == str(repository)


SHAPES = [(INCLUDE, source) for source in OTHER_SOURCES] + [(THREE_JOBS, OTHER_SOURCES[0])]


@pytest.mark.parametrize(("include", "source"), SHAPES)
def test_never_runs_for_other_pipelines(
    include: str,
    source: str,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    repository = sample_repository(include + TEAM)
    done = run_pipeline(repository, source, NIGHT, programs=nightshift.programs)
    assert done.jobs == {"unit-tests": "PASS"}, done.log
    assert not nightshift.called


@pytest.mark.parametrize("variables", [{}, {"NIGHTSHIFT": "false"}, {"NIGHTSHIFT": ""}])
@pytest.mark.parametrize("source", ["schedule", "web"])
def test_leaves_the_team_its_own_schedules_and_runs(
    source: str,
    variables: dict[str, str],
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    repository = sample_repository(INCLUDE + TEAM)
    done = run_pipeline(repository, source, variables, programs=nightshift.programs)
    assert done.jobs == {"unit-tests": "PASS"}, done.log


def test_manual_run_hands_on_what_the_form_says(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    form = {**NIGHT, "NIGHTSHIFT_CATEGORY": "docs", "NIGHTSHIFT_DRY_RUN": "true"}
    repository = sample_repository(INCLUDE)
    assert run_pipeline(repository, "web", form, programs=nightshift.programs).status == 0
    assert nightshift.variables.items() >= form.items()
    assert nightshift.variables["NIGHTSHIFT_TASK"] == ""


def test_scheduled_run_sets_no_category_and_no_dry_run(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    repository = sample_repository(INCLUDE)
    assert run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs).status == 0
    assert nightshift.variables["NIGHTSHIFT_CATEGORY"] == ""
    assert nightshift.variables["NIGHTSHIFT_DRY_RUN"] == ""


# --- beside the team's own jobs ---------------------------------------------------------------

RICH_PROJECT = """\
stages: [build, test, ship]
workflow:
  rules:
    - if: $CI_PIPELINE_SOURCE == "schedule"
    - if: $CI_PIPELINE_SOURCE == "push"
variables:
  LEVEL: "3"
default:
  image: team/build
  tags: [team-runner]
  retry: 2
  cache: {paths: [cache/]}
  before_script: [exit 41]
  after_script: [echo cleaning after the job]
compile:
  stage: build
  before_script: []
  script: [echo compiled]
ship:
  stage: ship
  before_script: []
  needs: [compile]
  script: [echo shipped]
"""


def test_team_configuration_is_the_same_with_the_template(
    expanded: Expanded, sample_repository: SampleRepository
) -> None:
    before = expanded(sample_repository(RICH_PROJECT))
    after = expanded(sample_repository(INCLUDE + RICH_PROJECT))
    for name in [name for name in after if name.startswith("nightshift")]:
        del after[name]
    after["variables"] = {
        k: v for k, v in after["variables"].items() if not k.startswith("NIGHTSHIFT")
    }
    assert after == before


def test_team_defaults_do_not_reach_the_night(
    expanded: Expanded, sample_repository: SampleRepository
) -> None:
    project = RICH_PROJECT.replace("default:\n", "default:\n  services: [postgres]\n")
    job = expanded(sample_repository(INCLUDE + project))["nightshift"]
    assert job["tags"] == ["team-runner"]
    assert job["image"] == {"name": "$NIGHTSHIFT_IMAGE"}
    assert not {"retry", "cache", "services", "after_script"} & set(job)


def test_night_in_a_project_with_stages_defaults_and_workflow(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    repository = sample_repository(INCLUDE + RICH_PROJECT)
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs == {"compile": "PASS", "nightshift": "PASS", "ship": "PASS"}, done.log


def test_night_does_not_wait_for_a_failing_job(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    broken = "compile:\n  stage: build\n  script: [exit 1]\n"
    repository = sample_repository(INCLUDE + broken)
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs == {"compile": "FAIL", "nightshift": "PASS"}, done.log


@pytest.mark.parametrize("status", [0, 12])
def test_artifacts_are_kept_also_of_a_failed_night(
    status: int,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    nightshift.fail_with(status)
    repository = sample_repository(INCLUDE)
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs == {"nightshift": "FAIL" if status else "PASS"}
    kept = done.artifacts("nightshift")
    assert (kept / "nightshift/junit.xml").exists()
    assert (kept / "nightshift/nightshift.env").exists()
    assert list(kept.rglob(".gitlab-ci-reports/dotenv/**/nightshift.env"))
