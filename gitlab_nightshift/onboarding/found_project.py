"""The environment of a project's tests, by its own files: image, stage, and what has to be
fetched."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitlab_nightshift.onboarding.build_stacks import BUILD_FILES, find_stacks
from gitlab_nightshift.onboarding.pipeline_rules import list_jobs
from gitlab_nightshift.proof.implied_commands import BuildFiles

_OWN_IMAGE = "the image your own jobs use"
# Without .pre and .post (docs.gitlab.com/ci/yaml, "stages").
DEFAULT_STAGES = ("build", "test", "deploy")


@dataclass(frozen=True)
class FoundEnvironment:
    """The environment of the tests: "" for the template's default, else with a reason in
    ``reasons``. ``fetch`` is a shell command that gets the dependencies; ``prepare`` are script
    lines in its place, which reuse a job of the project. ``variables`` are for the night's job."""

    image: str = ""
    stage: str = ""
    fetch: str = ""
    prepare: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()


def list_parts(build: BuildFiles) -> tuple[str, ...]:
    """The folders of a monorepo with their own build files."""
    found = {
        path.rpartition("/")[0] for path in build.files if path.rpartition("/")[2] in BUILD_FILES
    }
    return tuple(sorted(found - {""}))


def find_environment(
    config: Mapping[str, Any], build: BuildFiles, commands: tuple[str, ...]
) -> FoundEnvironment:
    """The environment of the job that runs these commands, else what the build files imply."""
    # The first is the most certain; without one, GitLab's defaults and the build files decide.
    name, job = next(iter(_list_test_jobs(config, commands)), ("", {}))
    image, why = _find_image(config, build, name, job)
    stage = _choose_stage(config, job)
    stacks = find_stacks(build)
    fetches = {stack.file: stack.fetch for stack in stacks if stack.fetch}
    variables = tuple(pair for stack in stacks for pair in stack.variables.items())
    chosen = FoundEnvironment(
        image, stage, variables=variables, reasons=(("image", why),) if image else ()
    )
    if job.get("before_script"):
        kept = [stack.fetch for stack in stacks if stack.needs_own_fetch]
        quoted = name if re.fullmatch(r"[\w.:-]+", name) else json.dumps(name, ensure_ascii=False)
        return replace(chosen, prepare=(f"!reference [{quoted}, before_script]", *kept))
    if not fetches:
        return chosen
    files = ", ".join(stack.because or stack.file for stack in stacks if stack.fetch)
    because = ("extra_before", f"from {files}; not tried yet")
    return replace(chosen, fetch=" && ".join(fetches.values()), reasons=(*chosen.reasons, because))


def _list_test_jobs(
    config: Mapping[str, Any], commands: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Jobs that run one of the commands, then those with the same test runner, then those named
    after tests."""
    jobs = list(list_jobs(config))
    yield from (each for each in jobs if any(c in str(each[1].get("script")) for c in commands))
    runners = {runner for command in commands if (runner := _read_runner(command))}
    yield from (
        each for each in jobs if runners & {_read_runner(line) for line in _list_lines(each[1])}
    )
    yield from (each for each in jobs if re.search(r"(?i)(^|[-_: ])tests?([-_: ]|$)", each[0]))


def _list_lines(job: Mapping[str, Any]) -> list[str]:
    script = job.get("script")
    parts = script if isinstance(script, list) else [script]
    return [line.strip() for part in parts for line in str(part).splitlines()]


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


def _read_runner(line: str) -> str:
    """The test runner that a command line starts; "" for none or an unknown one."""
    found = _RUNNER.match(_WRAPPERS.sub("", line))
    return next(filter(None, found.groups()), "") if found else ""


def _find_image(
    config: Mapping[str, Any], build: BuildFiles, name: str, job: Mapping[str, Any]
) -> tuple[str, str]:
    default = config.get("default")
    shared = default.get("image") if isinstance(default, Mapping) else None
    for image, why in (
        (job.get("image"), f"as in your job {name}"),
        (shared, "as in your default"),
        (config.get("image"), "as in your other jobs"),
    ):
        if text := _read_image(image):
            return text, why
    stacks = find_stacks(build)
    for stack in stacks:
        if stack.image:
            others = [each.file for each in stacks if each.fetch and each.image != stack.image]
            better = f"one that also has what {', '.join(others)} needs" if others else _OWN_IMAGE
            return stack.image, f"from {stack.file}; better: {better}"
    return "", ""


def _read_image(image: object) -> str:
    name = image.get("name") if isinstance(image, Mapping) else image
    return name if isinstance(name, str) and re.fullmatch(r"[\w./:@$ {}-]+", name) else ""


def _choose_stage(config: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    """A stage of the file; "" if it has the template's, ``test``."""
    stages = config.get("stages")
    known = [str(each) for each in stages] if isinstance(stages, list) else list(DEFAULT_STAGES)
    if "test" in known or not known:
        return ""
    own = str(job.get("stage", ""))
    return own if own in known else known[-1]
