"""The CI template: valid, a night where NIGHTSHIFT asks for one, and nothing anywhere else."""

from __future__ import annotations

import base64
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

import gitlab_nightshift
from gitlab_nightshift.gitlab.project import OLDEST_GITLAB
from gitlab_nightshift.registry.categories import FALLBACK_ORDER
from tests.ci.conftest import (
    APPROVE,
    CHECK,
    INCLUDE,
    NIGHT,
    RICH_PROJECT,
    ROOT,
    SERVED_PROJECT,
    TEAM,
    TEMPLATE,
    THREE_JOBS,
    Child,
    Completed,
    Ran,
    expanded,
    invalid,
    listed,
    recorder,
    run_children,
    template_text,
)

NIGHT_SOURCES = ["schedule", "web", "api", "trigger", "pipeline", "parent_pipeline"]
OTHER_SOURCES = ["push", "merge_request_event", "chat", "external_pull_request_event"]


class _Loader(yaml.SafeLoader):
    """YAML with GitLab's `!reference`."""


def _reference(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> list[Any]:
    return list(loader.construct_sequence(node))


_Loader.add_constructor("!reference", _reference)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return dict(yaml.load(template_text(), _Loader))


# --- the file ---------------------------------------------------------------------------------


def unhidden(path: Path, text: str) -> Path:
    """The template with its hidden jobs shown: the schema lets hidden ones hold anything."""
    path.write_text(re.sub(r"^\.(nightshift\S*:)$", r"shown-\1", text, flags=re.MULTILINE))
    return path


def test_inputs_have_defaults_and_say_what_they_are() -> None:
    spec = yaml.safe_load(TEMPLATE.read_text().partition("\n---\n")[0])["spec"]
    tools = json.loads((ROOT / "tests/node/package.json").read_text())["devDependencies"]
    agent = "@anthropic-ai/claude-code"
    assert {name: each["default"] for name, each in spec["inputs"].items()} == {
        "shape": "one-job",
        "stage": "test",
        "image": "node:24-bookworm",
        "version": gitlab_nightshift.__version__,
        "source": "$CI_PROJECT_ROOT_NAMESPACE/gitlab-nightshift",
        "agent": f"{agent}@{tools[agent]}",
        "schedule_description": "",
        "extra_before": "",
        "check": False,
        "rehearse": False,
        "history": False,
    }
    assert spec["inputs"]["shape"]["options"] == ["one-job", "three-jobs"]
    assert all(each["description"] for each in spec["inputs"].values())


def test_the_component_is_the_same_file() -> None:
    """GitLab reads a component from this folder alone."""
    component = ROOT / "templates/nightshift.yml"
    assert component.read_text() == TEMPLATE.read_text(), f"cp {TEMPLATE} {component}"


SINCE = {
    "GitLab 13.12 or older": (
        "after_script allow_failure artifacts before_script environment extends image inherit"
        " interruptible needs resource_group rules script stage timeout variables when"
        " allow_failure:exit_codes artifacts:expire_in artifacts:expose_as artifacts:paths"
        " artifacts:reports artifacts:when environment:action environment:name inherit:default"
        " reports:codequality reports:dotenv reports:junit"
    ),
    "GitLab 16.3": "reports:annotations",
    "GitLab 16.11": "artifacts:access",
}
"""Since when GitLab knows the keywords of jobs, by doc/ci/yaml/index.md and the change that added
each; an older one refuses every pipeline of the including project."""


def list_keywords(job: dict[str, Any]) -> set[str]:
    parts = {name: job.get(name) for name in ("allow_failure", "artifacts", "environment")}
    parts["inherit"] = job.get("inherit")
    parts["reports"] = (parts["artifacts"] or {}).get("reports")
    inner = {f"{p}:{k}" for p, each in parts.items() if isinstance(each, dict) for k in each}
    return inner | set(job)


def test_the_oldest_gitlab_that_takes_the_template_is_what_the_documents_say(
    template: dict[str, Any],
) -> None:
    jobs = [each for name, each in template.items() if name != "variables"]
    known = {name for names in SINCE.values() for name in names.split()}
    assert set().union(*map(list_keywords, jobs)) <= known
    least = ".".join(map(str, OLDEST_GITLAB))
    assert list(SINCE)[-1] == f"GitLab {least}"
    page = " ".join((ROOT / "docs/ci-template.md").read_text().split())
    assert f"It needs GitLab {least} and" in page


KEYS = ["access: developer", "interruptible: false", "default: [tags]", "action: access"]


def test_template_is_valid_for_gitlab_and_a_mistake_is_found(tmp_path: Path) -> None:
    plain = tmp_path / "plain.yml"
    plain.write_text(template_text())
    valid = [plain, unhidden(tmp_path / "unhidden.yml", template_text())]
    broken = [
        unhidden(
            tmp_path / f"{number}.yml",
            template_text().replace(key, key.partition(":")[0] + ": [nonsense]"),
        )
        for number, key in enumerate(KEYS)
    ]
    assert invalid(*valid, *broken) == set(broken)


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
        "NIGHTSHIFT_REHEARSE",
        "NIGHTSHIFT_TASK",
    ]
    assert form["NIGHTSHIFT"]["options"] == ["false", "true"]
    assert form["NIGHTSHIFT_CATEGORY"]["options"] == ["", *FALLBACK_ORDER]
    assert form["NIGHTSHIFT_DRY_RUN"]["options"] == ["", "true", "false"]
    assert form["NIGHTSHIFT_REHEARSE"]["options"] == ["", "true"]


def test_form_starts_no_night_by_itself_and_overrides_no_setting(template: dict[str, Any]) -> None:
    form = {k: v for k, v in template["variables"].items() if isinstance(v, dict)}
    assert all(field["description"] for field in form.values()), "GitLab hides fields without one"
    assert {name: field["value"] for name, field in form.items()} == {
        "NIGHTSHIFT": "false",
        "NIGHTSHIFT_CATEGORY": "",
        "NIGHTSHIFT_DRY_RUN": "",
        "NIGHTSHIFT_REHEARSE": "",
        "NIGHTSHIFT_TASK": "",
    }


def test_settings_accept_the_template_as_it_stands(template: dict[str, Any]) -> None:
    from gitlab_nightshift.settings.load import load_settings

    variables = template["variables"].items()
    env = {k: v["value"] if isinstance(v, dict) else v for k, v in variables}
    assert load_settings(env) == load_settings({})


def test_pinned_agents_are_those_that_were_tested() -> None:
    """What is fetched where there is no npm: the same bytes that npm installed for the tests."""
    packages = json.loads((ROOT / "tests/node/package-lock.json").read_text())["packages"]
    for kind in ("linux-x64", "linux-x64-musl"):
        locked = packages[f"node_modules/@anthropic-ai/claude-code-{kind}"]
        pinned = re.search(rf"kind={kind} hash=(\w+)", template_text())
        digest = base64.b64decode(locked["integrity"].removeprefix("sha512-")).hex()
        assert pinned and pinned[1] == digest
        assert f"-$kind-{locked['version']}.tgz" in template_text()


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


def test_a_night_is_kept_whole(runner: Path) -> None:
    job = expanded(CHECK + SERVED_PROJECT)["nightshift"]
    assert job["interruptible"] is False
    assert job["resource_group"] == "nightshift"
    assert job["variables"]["GIT_STRATEGY"] == "clone"
    assert job["artifacts"] == {
        "when": "always",
        "access": "developer",
        "expire_in": "30 days",
        "expose_as": "Night shift",
        "paths": ["nightshift/"],
        "reports": {
            "junit": "nightshift/junit.xml",
            "dotenv": "nightshift/nightshift.env",
            "annotations": "nightshift/annotations.json",
        },
    }


# --- when it runs -----------------------------------------------------------------------------

ASKED = [("true", source) for source in NIGHT_SOURCES]
NOT_ASKED = [
    *(("true", source) for source in OTHER_SOURCES),
    *((value, source) for value in (None, "false", "") for source in ("schedule", "web")),
]


Case = tuple[str | None, str]


def whens(include: str, names: tuple[str, ...], cases: list[Case]) -> dict[tuple[str, Case], str]:
    """When jobs would run, by name, NIGHTSHIFT and the pipeline's source: asked of the runner."""
    asked = {f"case-{n}": each for n, each in enumerate(product(names, cases))}
    jobs = {}
    for job, (name, (value, source)) in asked.items():
        night = {} if value is None else {"NIGHTSHIFT": value}
        jobs[job] = {"extends": name, "variables": {"CI_PIPELINE_SOURCE": source, **night}}
    when = listed(include + yaml.safe_dump(jobs))
    return {each: when[job] for job, each in asked.items()}


ONE, THREE = ("nightshift",), ("nightshift:plan", "nightshift:work", "nightshift:publish")


WHEN = {APPROVE: "manual", "nightshift:publish": "always"}


@pytest.mark.parametrize(
    ("include", "own", "others"), [(INCLUDE, (*ONE, APPROVE), THREE), (THREE_JOBS, THREE, ONE)]
)
def test_runs_where_nightshift_is_true_and_never_for_other_pipelines(
    include: str, own: tuple[str, ...], others: tuple[str, ...], runner: Path
) -> None:
    found = whens(include, (*own, *others), ASKED + NOT_ASKED)
    assert found == {
        (name, case): "never"
        if name in others or case in NOT_ASKED
        else WHEN.get(name, "on_success")
        for name, case in found
    }


FORM = {
    **NIGHT,
    "NIGHTSHIFT_CATEGORY": "docs",
    "NIGHTSHIFT_DRY_RUN": "true",
    "NIGHTSHIFT_REHEARSE": "true",
}
BROKEN = "compile:\n  stage: build\n  script: [exit 1]\n"
FAILED = f"{INCLUDE}{TEAM}{BROKEN}failed-night:\n  extends: nightshift\n"
CHILDREN = {
    "rich": Child(INCLUDE + RICH_PROJECT),
    "form": Child(FAILED, "web", {**FORM, "ENDS_WITH": "run=12"}),
    "push": Child(INCLUDE + TEAM, "push"),
    "push-three": Child(THREE_JOBS + TEAM, "push"),
    "own-schedule": Child(INCLUDE + TEAM, "schedule", {}),
    "asks": Child(INCLUDE, "schedule", {**NIGHT, "ENDS_WITH": "run=4"}),
}


Runs = tuple[dict[str, Ran], Completed]


@pytest.fixture(scope="module")
def ran(runner: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("template")
    return run_children(folder, CHILDREN, nightshift=recorder(folder))


def test_night_in_a_project_with_stages_defaults_and_workflow(ran: Runs) -> None:
    rich = ran[0]["rich"]
    assert rich.jobs == {"compile": "PASS", "nightshift": "PASS", "ship": "PASS"}, rich.log
    [call] = rich.calls
    assert call.argv == ["run"]
    assert call.variables["CI_PIPELINE_SOURCE"] == "schedule"
    assert {name: call.variables[name] for name in FORM if name != "NIGHTSHIFT"} == {
        "NIGHTSHIFT_CATEGORY": "",
        "NIGHTSHIFT_DRY_RUN": "",
        "NIGHTSHIFT_REHEARSE": "",
    }
    assert "Installing" not in rich.log, "the image has it"


def test_manual_run_hands_on_what_the_form_says(ran: Runs) -> None:
    calls = ran[0]["form"].calls
    assert all(call.variables.items() >= FORM.items() for call in calls)
    assert {call.variables["NIGHTSHIFT_TASK"] for call in calls} == {""}


def test_night_does_not_wait_for_a_failing_job(ran: Runs) -> None:
    jobs = dict.fromkeys(["compile", "nightshift", "failed-night"], "FAIL")
    assert ran[0]["form"].jobs == {"unit-tests": "PASS", **jobs}, ran[0]["form"].log
    assert len(ran[0]["form"].calls) == 2


def test_the_team_keeps_its_own_pipelines(ran: Runs) -> None:
    for name in ("push", "push-three", "own-schedule"):
        assert (ran[0][name].jobs, ran[0][name].calls) == ({"unit-tests": "PASS"}, []), name


def test_only_the_missing_approval_is_a_warning(ran: Runs) -> None:
    """And nothing is published before somebody starts the job for it."""
    assert ran[0]["asks"].jobs == {"nightshift": "WARN"}
    assert [call.argv for call in ran[0]["asks"].calls] == [["run"]]
    assert ran[0]["form"].jobs["nightshift"] == "FAIL"


@pytest.mark.parametrize("job", ["nightshift", "failed-night"])
def test_artifacts_are_kept_also_of_a_failed_night(job: str, ran: Runs) -> None:
    found = ran[1].artifacts(job)
    assert (found / "nightshift/junit.xml").exists()
    assert (found / "nightshift/nightshift.env").exists()
    assert list(found.rglob(".gitlab-ci-reports/dotenv/**/nightshift.env"))


# --- beside the team's own jobs ---------------------------------------------------------------


def test_team_configuration_is_the_same_with_the_template(runner: Path) -> None:
    before, after = expanded(SERVED_PROJECT), dict(expanded(CHECK + SERVED_PROJECT))
    for name in [name for name in after if name.startswith("nightshift")]:
        del after[name]
    after["variables"] = {
        k: v for k, v in after["variables"].items() if not k.startswith("NIGHTSHIFT")
    }
    assert after == before


def test_team_defaults_do_not_reach_the_night(runner: Path) -> None:
    job = expanded(CHECK + SERVED_PROJECT)["nightshift"]
    assert job["tags"] == ["team-runner"]
    assert job["image"] == {"name": "$NIGHTSHIFT_IMAGE"}
    assert not {"retry", "cache", "services", "after_script"} & set(job)
