"""Every example of docs/ci-template.md is valid and does what the page says."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import yaml

from tests.ci.conftest import (
    NIGHT,
    ROOT,
    SCOPED,
    TEMPLATE,
    Recorder,
    RunPipeline,
    SampleRepository,
    check_schema,
    program,
)

PAGE = (ROOT / "docs/ci-template.md").read_text()
FROM_PROJECT = re.compile(r"  - project: \S+\n    ref: \S+\n    file: /(\S+)\n")


def _examples() -> dict[str, list[str]]:
    """The complete ``.gitlab-ci.yml`` files of the page by the heading above them."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"^##+ ", PAGE, flags=re.MULTILINE):
        heading = section.partition("\n")[0]
        blocks = re.findall(r"^ *```yaml\n(.*?)^ *```$", section, re.MULTILINE | re.DOTALL)
        found[heading] = [textwrap.dedent(block) for block in blocks]
    return found


EXAMPLES = _examples()


def example(heading: str, number: int = 0) -> str:
    """An example with the template included from the sample repository itself."""
    text, replaced = FROM_PROJECT.subn(r"  - local: \1\n", EXAMPLES[heading][number])
    assert replaced == 1, text
    return text


def test_examples_are_valid_for_gitlab(tmp_path: Path) -> None:
    texts = [text for texts in EXAMPLES.values() for text in texts]
    assert len(texts) == 13
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.yml")
        files[-1].write_text(text.rpartition("\n---\n")[2])
    done = check_schema(*files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_variables_of_the_page_and_of_the_template_are_the_same() -> None:
    names = set(re.findall(r"^  (NIGHTSHIFT\w*):", TEMPLATE.read_text(), re.MULTILINE))
    assert names == set(re.findall(r"^\| `(NIGHTSHIFT\w*)` \|", PAGE, re.MULTILINE))


@pytest.mark.parametrize("heading", ["Five steps to the first night", "The form of New pipeline"])
def test_plain_examples_run_a_night(
    heading: str,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    repository = sample_repository(example(heading))
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs == {"nightshift": "PASS"}, done.log
    assert nightshift.variables["NIGHTSHIFT_CATEGORY"] == ""


def test_inputs_of_the_page_and_of_the_template_are_the_same() -> None:
    spec = yaml.safe_load(TEMPLATE.read_text().partition("\n---\n")[0])["spec"]
    section = PAGE.partition("\n| input |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(\S+)` \|", section, re.MULTILINE)
    inputs = spec["inputs"].items()
    assert dict(rows) == {name: str(each["default"]).lower() for name, each in inputs}


def test_three_jobs_as_the_page_sets_them_up(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    repository = sample_repository(example("Three jobs, in five lines"))
    done = run_pipeline(repository, "web", NIGHT, programs=nightshift.programs, scoped=SCOPED)
    assert list(done.jobs) == ["nightshift:plan", "nightshift:work", "nightshift:publish"]


@pytest.mark.parametrize("shape", ["one-job", "three-jobs"])
@pytest.mark.parametrize("description", ["nightshift", "weekly report"])
def test_a_schedule_known_by_its_description(
    description: str,
    shape: str,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    text = example("Where pipeline variables are forbidden", 0)
    text = text.replace(
        "templates/.gitlab-ci.yml\n", f"templates/.gitlab-ci.yml\n    inputs: {{shape: {shape}}}\n"
    )
    variables = {"CI_PIPELINE_SCHEDULE_DESCRIPTION": description}
    run_pipeline(
        sample_repository(text),
        "schedule",
        variables,
        programs=nightshift.programs,
        scoped=SCOPED if shape == "three-jobs" else None,
    )
    assert nightshift.called == (description == "nightshift")


@pytest.mark.parametrize("inputs", [{}, {"nightshift": "true", "nightshift_category": "docs"}])
def test_a_night_by_inputs(
    inputs: dict[str, str],
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    repository = sample_repository(example("Where pipeline variables are forbidden", 1))
    run_pipeline(repository, "web", programs=nightshift.programs, inputs=inputs)
    assert nightshift.called == bool(inputs)
    if inputs:
        assert nightshift.variables["NIGHTSHIFT_CATEGORY"] == "docs"


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("source", ["push", "schedule"])
def test_own_jobs_kept_out_of_the_night(
    source: str,
    number: int,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    files = {
        "ci/team.yml": "unit-tests:\n  script:\n    - make test\n",
        "Makefile": "test:\n\techo\n",
    }
    repository = sample_repository(example("Your own jobs", number), files)
    variables = NIGHT if source == "schedule" else {}
    done = run_pipeline(repository, source, variables, programs=nightshift.programs)
    expected = "nightshift" if source == "schedule" else "unit-tests"
    assert done.jobs == {expected: "PASS"}, done.log


def test_a_job_without_rules_of_its_own_stays_out_of_merge_request_pipelines(
    run_pipeline: RunPipeline, sample_repository: SampleRepository
) -> None:
    repository = sample_repository(example("Your own jobs", 1))
    merge_request = {"CI_COMMIT_BRANCH": "", "CI_MERGE_REQUEST_IID": "7"}
    done = run_pipeline(repository, "merge_request_event", merge_request)
    assert done.jobs == {}


@pytest.mark.parametrize("status", [0, 9])
def test_a_job_after_the_night_knows_the_outcome(
    status: int,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    nightshift.fail_with(status)
    repository = sample_repository(example("A job after the night"))
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs["tell-the-team"] == "PASS", done.log
    assert "> Last night, MR_CREATED" in done.log


def test_another_stage_and_settings_by_variable(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    repository = sample_repository(example("Changing the job"))
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs == {"nightshift": "PASS"}, done.log
    assert nightshift.variables["NIGHTSHIFT_MAX_BUDGET_USD"] == "5"


def test_own_image_and_preparation_after_the_install_step(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    program(nightshift.programs, "npm", "#!/bin/sh\necho prepared by npm $*\n")
    repository = sample_repository(example("Image and install step", 0))
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs == {"nightshift": "PASS"}, done.log
    assert "> prepared by npm ci" in done.log


def test_install_step_replaced(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    files = {"Makefile": "install-night-tools:\n\t@echo installed by make\n"}
    repository = sample_repository(example("Image and install step", 1), files)
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs == {"nightshift": "PASS"}, done.log
    assert "> installed by make" in done.log
    assert "NIGHTSHIFT_TOOLS" not in done.log


def test_hidden_job_extended_under_another_name(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    files = {"Makefile": "dependencies:\n\t@echo dependencies are there\n"}
    repository = sample_repository(example("Several nights"), files)
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.jobs == {"night-of-billing": "PASS"}, done.log
    assert "> dependencies are there" in done.log
    assert nightshift.argv == ["run"]
    assert "billing" in nightshift.variables["NIGHTSHIFT_PATHS"]
    assert (done.artifacts("night-of-billing") / "nightshift/junit.xml").exists()
