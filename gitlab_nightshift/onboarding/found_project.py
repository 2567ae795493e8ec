"""What a project's own files say of where its tests run: image, stage, what has to be fetched."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.onboarding.scheduled_jobs import list_jobs
from gitlab_nightshift.verdict.implied_commands import BuildFiles

DEFAULT_STAGES = ("build", "test", "deploy")
_IMAGES = (
    ("pom.xml", "maven:3-eclipse-temurin-21"),
    ("build.gradle", "gradle:8-jdk21"),
    ("build.gradle.kts", "gradle:8-jdk21"),
    ("go.mod", "golang:1"),
    ("Cargo.toml", "rust:1"),
    ("composer.json", "composer:2"),
    ("Gemfile", "ruby:3"),
    ("pyproject.toml", "python:3"),
    ("setup.py", "python:3"),
    ("requirements.txt", "python:3"),
)
"""Official images that have the build tool; package.json needs none: the template's has Node."""
_FETCHES = (
    ("package-lock.json", "npm ci"),
    ("pnpm-lock.yaml", "corepack enable && pnpm install --frozen-lockfile"),
    ("yarn.lock", "corepack enable && yarn install --immutable"),
    ("go.mod", "go mod download"),
    ("Cargo.lock", "cargo fetch --locked"),
    ("pom.xml", "mvn -B -q dependency:go-offline"),
    ("composer.lock", "composer install --no-interaction"),
    ("requirements.txt", "pip install -r requirements.txt"),
    ("pyproject.toml", "pip install -e ."),
)


@dataclass(frozen=True)
class FoundEnvironment:
    """Where the tests run. "" is what the template does by itself; ``reasons`` say why the others
    are so. ``fetch`` is a shell command, ``prepare`` lines of a job of the project."""

    image: str = ""
    stage: str = ""
    fetch: str = ""
    prepare: tuple[str, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()


def list_parts(build: BuildFiles) -> tuple[str, ...]:
    """The folders of a monorepo that have build files of their own."""
    names = {"package.json", *(name for name, _ in _IMAGES)}
    found = {path.rpartition("/")[0] for path in build.files if path.rpartition("/")[2] in names}
    return tuple(sorted(found - {""}))


def find_environment(
    config: Mapping[str, Any], build: BuildFiles, commands: tuple[str, ...]
) -> FoundEnvironment:
    """What the job that runs these commands says, else what the build files imply."""
    name, job = next(iter(_list_test_jobs(config, commands)), ("", {}))
    image, why = _find_image(config, build, name, job)
    stage = _choose_stage(config, job)
    before = job.get("before_script")
    reasons = (("image", why),) if image else ()
    if before:
        prepare = (f"!reference [{name}, before_script]",)
        return FoundEnvironment(image, stage, "", prepare, reasons)
    return FoundEnvironment(image, stage, " && ".join(_find_fetches(build)), (), reasons)


def _list_test_jobs(
    config: Mapping[str, Any], commands: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Jobs that run one of the commands, then those that have a test's name."""
    jobs = list(list_jobs(config))
    yield from (each for each in jobs if any(c in str(each[1].get("script")) for c in commands))
    yield from (each for each in jobs if re.search(r"(?i)(^|[-_: ])tests?([-_: ]|$)", each[0]))


def _find_image(
    config: Mapping[str, Any], build: BuildFiles, name: str, job: Mapping[str, Any]
) -> tuple[str, str]:
    default = config.get("default")
    shared = default.get("image") if isinstance(default, Mapping) else None
    for image, why in (
        (job.get("image"), f"as your job {name}"),
        (shared, "as your default"),
        (config.get("image"), "as your other jobs"),
    ):
        if text := _read_image(image):
            return text, why
    for file, image in _IMAGES:
        if file in build.files:
            return image, f"because of {file}; take the one that your own jobs use"
    return "", ""


def _read_image(image: object) -> str:
    name = image.get("name") if isinstance(image, Mapping) else image
    return name if isinstance(name, str) and re.fullmatch(r"[\w./:@$ {}-]+", name) else ""


def _choose_stage(config: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    """A stage that the file has; "" for the template's own, ``test``."""
    stages = config.get("stages")
    known = [str(each) for each in stages] if isinstance(stages, list) else list(DEFAULT_STAGES)
    if "test" in known or not known:
        return ""
    own = str(job.get("stage", ""))
    return own if own in known else known[-1]


def _find_fetches(build: BuildFiles) -> tuple[str, ...]:
    """The first that fits of each line: what fetches the dependencies."""
    found = [(file, line) for file, line in _FETCHES if file in build.files]
    tools = {line.split()[0]: line for _, line in reversed(found)}
    return tuple(line for _, line in found if tools[line.split()[0]] == line)
