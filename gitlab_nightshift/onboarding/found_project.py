"""Finds in a project's files the environment of its tests: image, stage, and dependencies to
fetch."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitlab_nightshift.onboarding.build_stacks import BUILD_FILES, find_stacks
from gitlab_nightshift.onboarding.pipeline_rules import list_jobs
from gitlab_nightshift.proof.implied_commands import RepositoryFiles

# Without .pre and .post (docs.gitlab.com/ci/yaml, "stages").
DEFAULT_STAGES = ("build", "test", "deploy")


@dataclass(frozen=True)
class FoundEnvironment:
    """The environment of the tests, "" for the template's default. ``fetch`` is a shell command
    that gets the dependencies; ``prepare`` are script lines in its place, which reuse a job of the
    project. ``variables`` are for the night's job, ``reasons`` the comments beside its inputs."""

    image: str = ""
    stage: str = ""
    fetch: str = ""
    prepare: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()


def list_subprojects(files: RepositoryFiles) -> tuple[str, ...]:
    """The folders of a monorepo with their own build files."""
    paths = (path.rpartition("/") for path in files.paths)
    return tuple(sorted({folder for folder, _, name in paths if folder and name in BUILD_FILES}))


def find_environment(
    config: Mapping[str, Any], files: RepositoryFiles, commands: tuple[str, ...]
) -> FoundEnvironment:
    """The environment of the job that runs these commands, else what the build files imply."""
    # The first is the most certain; without one, GitLab's defaults and the build files decide.
    name, job = next(_list_test_jobs(config, commands), ("", {}))
    image, why = _find_image(config, files, name, job)
    stacks = find_stacks(files)
    environment = FoundEnvironment(
        image,
        _choose_stage(config, job),
        variables=tuple(pair for stack in stacks for pair in stack.variables.items()),
        reasons=(("image", why),) if image else (),
    )
    if job.get("before_script"):
        fetches = [stack.fetch for stack in stacks if stack.needs_own_fetch]
        quoted = name if re.fullmatch(r"[\w.:-]+", name) else json.dumps(name, ensure_ascii=False)
        return replace(environment, prepare=(f"!reference [{quoted}, before_script]", *fetches))
    fetching = [stack for stack in stacks if stack.fetch]
    if not fetching:
        return environment
    sources = ", ".join(stack.sources or stack.file for stack in fetching)
    return replace(
        environment,
        fetch=" && ".join(stack.fetch for stack in fetching),
        reasons=(*environment.reasons, ("extra_before", f"from {sources}; not tried yet")),
    )


def _list_test_jobs(
    config: Mapping[str, Any], commands: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Jobs that run one of the commands, then those with the same test runner, then those named
    after tests."""
    jobs = list(list_jobs(config))
    for name, job in jobs:
        if any(command in str(job.get("script")) for command in commands):
            yield name, job
    runners = {_find_runner(command) for command in commands} - {""}
    for name, job in jobs:
        if runners & {_find_runner(line) for line in _list_script_lines(job)}:
            yield name, job
    for name, job in jobs:
        if re.search(r"(?i)(^|[-_: ])tests?([-_: ]|$)", name):
            yield name, job


def _list_script_lines(job: Mapping[str, Any]) -> list[str]:
    script = job.get("script")
    items = script if isinstance(script, list) else [script]
    return [line.strip() for item in items for line in str(item).splitlines()]


_WRAPPERS = re.compile(
    r"^(?:(?:poetry|uv|pdm|pipenv) run |bundle exec |npx |(?:\S+/)?(?:python3?|coverage run) -m )+"
)
_RUNNER = re.compile(
    r"""
      # bin/rspec
      (?:\S*/)?(?P<runner>pytest|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|bats|ctest)\b
    # go test ./...
    | (?P<tool>npm|pnpm|yarn|bun|go|cargo|sbt|rake|rails|composer|dotnet|mix)\b.*\btest\b
    | (?:\./)?(?P<java>mvn|gradle)w?\b.*\b(?:test|verify|check|build|install)\b  # ./gradlew check
    | (?P<make>make)[ ](?:tests?|check)\b                                        # make check
    """,
    re.VERBOSE,
)


def _find_runner(line: str) -> str:
    """The test runner that a command line starts; "" for none or an unknown one."""
    match = _RUNNER.match(_WRAPPERS.sub("", line))
    return next(filter(None, match.groups()), "") if match else ""


def _find_image(
    config: Mapping[str, Any], files: RepositoryFiles, name: str, job: Mapping[str, Any]
) -> tuple[str, str]:
    """The image and why it was chosen; ("", "") for the template's."""
    default = config.get("default")
    default_image = default.get("image") if isinstance(default, Mapping) else None
    for keyword, why in (
        (job.get("image"), f"as in your job {name}"),
        (default_image, "as in your default"),
        (config.get("image"), "as in your other jobs"),
    ):
        if image := _read_image(keyword):
            return image, why
    stacks = find_stacks(files)
    for stack in stacks:
        if stack.image:
            others = [each.file for each in stacks if each.fetch and each.image != stack.image]
            better = "the image your own jobs use"
            if others:
                better = f"one that also has what {', '.join(others)} needs"
            return stack.image, f"from {stack.file}; better: {better}"
    return "", ""


def _read_image(image: object) -> str:
    """The name in the keyword ``image``; "" for none, or an invalid one."""
    name = image.get("name") if isinstance(image, Mapping) else image
    return name if isinstance(name, str) and re.fullmatch(r"[\w./:@$ {}-]+", name) else ""


def _choose_stage(config: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    """The job's stage, else the last of the file; "" if the file has the template's, ``test``."""
    keyword = config.get("stages")
    stages = [str(each) for each in keyword] if isinstance(keyword, list) else list(DEFAULT_STAGES)
    if "test" in stages or not stages:
        return ""
    job_stage = str(job.get("stage", ""))
    return job_stage if job_stage in stages else stages[-1]
