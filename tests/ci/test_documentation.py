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
    Child,
    Completed,
    Ran,
    Recorder,
    RunPipeline,
    SampleRepository,
    invalid,
    program,
    recorder,
    run_children,
)

PAGE = (ROOT / "docs/ci-template.md").read_text()
FROM_PROJECT = re.compile(r"  - project: \S+\n    ref: \S+\n    file: /(\S+)\n")


def _complete(block: str) -> str:
    """A block with the include that the page leaves out, or with that include's inputs."""
    first, _, rest = block.partition("\n")
    if first.endswith(", in the include"):
        return block_of_include() + textwrap.indent(rest, "    ")
    return block if "include:" in block else block_of_include() + block


def block_of_include() -> str:
    """The one of the first steps, without indentation."""
    found = re.search(r"^( *)include:\n(?:\1 .*\n)+", PAGE, re.MULTILINE)
    assert found
    return textwrap.dedent(found[0])


def _examples() -> dict[str, list[str]]:
    """The complete ``.gitlab-ci.yml`` files of the page by the heading above them."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"^##+ ", PAGE, flags=re.MULTILINE):
        heading = section.partition("\n")[0]
        blocks = re.findall(r"^ *```yaml\n(.*?)^ *```$", section, re.MULTILINE | re.DOTALL)
        found[heading] = [_complete(textwrap.dedent(block)) for block in blocks]
    return found


EXAMPLES = _examples()


def example(heading: str, number: int = 0) -> str:
    """An example with the template included from the sample repository itself."""
    text, replaced = FROM_PROJECT.subn(r"  - local: \1\n", EXAMPLES[heading][number])
    assert replaced == 1, text
    return text


def test_examples_are_valid_for_gitlab(tmp_path: Path) -> None:
    texts = [text for texts in EXAMPLES.values() for text in texts]
    assert len(texts) == 14
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.yml")
        files[-1].write_text(text.rpartition("\n---\n")[2])
    assert invalid(*files) == set()


def test_variables_of_the_page_and_of_the_template_are_the_same() -> None:
    names = set(re.findall(r"^  (NIGHTSHIFT\w*):", TEMPLATE.read_text(), re.MULTILINE))
    assert names == set(re.findall(r"^\| `(NIGHTSHIFT\w*)` \|", PAGE, re.MULTILINE))


def yaml_text(value: object) -> str:
    """A default as the page writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


def test_inputs_of_the_page_and_of_the_template_are_the_same() -> None:
    spec = yaml.safe_load(TEMPLATE.read_text().partition("\n---\n")[0])["spec"]
    section = PAGE.partition("\n| input |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(\S+)` \|", section, re.MULTILINE)
    inputs = spec["inputs"].items()
    assert dict(rows) == {name: yaml_text(each["default"]) for name, each in inputs}


# --- what they do -----------------------------------------------------------------------------

FORBIDDEN, OWN_JOBS, IMAGE = (
    "Where pipeline variables are forbidden",
    "Your own jobs",
    "Image and install step",
)
BY_DESCRIPTION = example(FORBIDDEN)
IN_THREE = BY_DESCRIPTION.replace("    inputs:\n", "    inputs:\n      shape: three-jobs\n")


def described(text: str, description: str) -> Child:
    variables = {"CI_PIPELINE_SCHEDULE_DESCRIPTION": description, "GITLAB_TOKEN": ""}
    return Child(text, variables=variables)


def after_the_night(status: int) -> Child:
    return Child(
        example("A job after the night"), variables={**NIGHT, "ENDS_WITH": f"run={status}"}
    )


MERGE_REQUEST = {"CI_COMMIT_BRANCH": "", "CI_MERGE_REQUEST_IID": "7"}
CHILDREN = {
    "first night": Child(example("Steps 0 to 4 by hand")),
    "form": Child(example("The form of New pipeline")),
    "described": described(BY_DESCRIPTION, "Night shift"),
    "described-otherwise": described(BY_DESCRIPTION, "weekly report"),
    "three-described": described(IN_THREE, "Night shift"),
    "three-described-otherwise": described(IN_THREE, "weekly report"),
    "own-1-night": Child(example(OWN_JOBS, 1)),
    "own-1-push": Child(example(OWN_JOBS, 1), "push", {}),
    "own-1-merge-request": Child(example(OWN_JOBS, 1), "merge_request_event", MERGE_REQUEST),
    "after 0": after_the_night(0),
    "after 9": after_the_night(9),
    "changed": Child(example("Changing the job")),
    "prepared": Child(example(IMAGE, 0)),
    "replaced": Child(example(IMAGE, 1)),
    "several": Child(example("Several nights")),
}
FILES = {
    "ci/team.yml": "unit-tests:\n  script:\n    - make test\n",
    "Makefile": (
        "test:\n\techo\ninstall-night-tools:\n\t@echo installed by make\n"
        "dependencies:\n\t@echo dependencies are there\n"
    ),
}
Runs = tuple[dict[str, Ran], Completed]


@pytest.fixture(scope="module")
def ran(runner: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("documentation")
    nightshift = recorder(folder)
    program(nightshift.programs, "npm", "#!/bin/sh\necho prepared by npm $*\n")
    return run_children(folder, CHILDREN, FILES, nightshift=nightshift)


@pytest.mark.parametrize("name", ["first night", "form"])
def test_plain_examples_run_a_night(name: str, ran: Runs) -> None:
    found = ran[0][name]
    assert found.jobs == {"nightshift": "PASS"}, found.log
    assert found.calls[0].variables["NIGHTSHIFT_CATEGORY"] == ""


def test_three_jobs_as_the_page_sets_them_up(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, nightshift: Recorder
) -> None:
    repository = sample_repository(example("Three jobs, in five lines"))
    done = run_pipeline(repository, "web", NIGHT, programs=nightshift.programs, scoped=SCOPED)
    assert list(done.jobs) == [
        f"nightshift:{name}" for name in ("plan", "work", "notary", "publish")
    ]


def test_a_schedule_known_by_its_description(ran: Runs) -> None:
    names = ("described", "described-otherwise", "three-described", "three-described-otherwise")
    assert [list(ran[0][name].jobs) for name in names] == [
        ["nightshift"],
        [],
        ["nightshift:plan"],
        [],
    ]


@pytest.mark.parametrize("inputs", [{}, {"nightshift": "true", "nightshift_category": "docs"}])
def test_a_night_by_inputs(
    inputs: dict[str, str],
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    repository = sample_repository(example(FORBIDDEN, 1))
    run_pipeline(repository, "web", programs=nightshift.programs, inputs=inputs)
    assert nightshift.called == bool(inputs)
    if inputs:
        assert nightshift.variables["NIGHTSHIFT_CATEGORY"] == "docs"


@pytest.mark.parametrize(
    ("source", "variables", "job"), [("push", {}, "unit-tests"), ("schedule", NIGHT, "nightshift")]
)
def test_own_jobs_kept_out_of_the_night_by_their_include(
    source: str,
    variables: dict[str, str],
    job: str,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
) -> None:
    repository = sample_repository(example(OWN_JOBS, 0), FILES)
    done = run_pipeline(repository, source, variables, programs=nightshift.programs)
    assert done.jobs == {job: "PASS"}, done.log


def test_own_jobs_kept_out_of_the_night_by_their_rules(ran: Runs) -> None:
    """And out of merge request pipelines, as a job without rules of its own is."""
    names = ("own-1-night", "own-1-push", "own-1-merge-request")
    jobs = [{"nightshift": "PASS"}, {"unit-tests": "PASS"}, {}]
    assert [ran[0][name].jobs for name in names] == jobs


@pytest.mark.parametrize(("name", "night"), [("after 0", "PASS"), ("after 9", "FAIL")])
def test_a_job_after_the_night_knows_the_outcome(name: str, night: str, ran: Runs) -> None:
    found = ran[0][name]
    assert found.jobs == {"nightshift": night, "tell-the-team": "PASS"}, found.log
    assert "> Last night, MR_CREATED" in found.log


def test_another_stage_and_settings_by_variable(ran: Runs) -> None:
    found = ran[0]["changed"]
    assert found.jobs == {"nightshift": "PASS"}, found.log
    assert found.calls[0].variables["NIGHTSHIFT_MAX_BUDGET_USD"] == "5"


def test_own_image_and_preparation_after_the_install_step(ran: Runs) -> None:
    found = ran[0]["prepared"]
    assert found.jobs == {"nightshift": "PASS"}, found.log
    assert "> prepared by npm ci" in found.log
    others = [name for name, each in ran[0].items() if "prepared by npm" in each.log]
    assert others == ["prepared"]


def test_install_step_replaced(ran: Runs) -> None:
    found = ran[0]["replaced"]
    assert found.jobs == {"nightshift": "PASS"}, found.log
    assert "> installed by make" in found.log
    assert "Installs nightshift" not in found.log
    assert "Installs nightshift" in ran[0]["prepared"].log


def test_hidden_job_extended_under_another_name(ran: Runs) -> None:
    found = ran[0]["several"]
    assert found.jobs == {"night-of-billing": "PASS"}, found.log
    assert "> dependencies are there" in found.log
    [call] = found.calls
    assert call.argv == ["run"]
    assert "billing" in call.variables["NIGHTSHIFT_PATHS"]
    assert (ran[1].artifacts("night-of-billing") / "nightshift/junit.xml").exists()
