"""Runs the CI template in sample repositories with a real runner, gitlab-ci-local."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "ci/templates/.gitlab-ci.yml"
RUNNER = ROOT / "tests/node/node_modules/.bin/gitlab-ci-local"
STATE = ".gitlab-ci-local"
LIMIT_S = 120
INCLUDE = "include:\n  - local: ci/templates/.gitlab-ci.yml\n"
THREE_JOBS = f"{INCLUDE}    inputs: {{shape: three-jobs}}\n"
NIGHT = {"NIGHTSHIFT": "true"}
TOKEN = "glpat-TokenOfTheNight01"
KEY = "sk-ModelKeyOfTheNight02"
SCOPED = {"GITLAB_TOKEN": {"nightshift": TOKEN}, "ANTHROPIC_API_KEY": {"*": KEY}}
"""The project's variables by environment scope, as the three jobs want them."""


@dataclass(frozen=True)
class Completed:
    """A pipeline that has ended: exit status of the runner, what ran, and what it left."""

    status: int
    log: str
    repository: Path

    @property
    def jobs(self) -> dict[str, str]:
        """Jobs that ran, by name: ``PASS``, ``FAIL`` or ``WARN``."""
        found = re.findall(r"^ (PASS|FAIL|WARN)  (\S+)", self.log, re.MULTILINE)
        return {name: result for result, name in found}

    def artifacts(self, job: str) -> Path:
        """The folder that holds what a job's artifacts kept."""
        return artifacts_folder(self.repository, job)


def artifacts_folder(repository: Path, job: str) -> Path:
    """Where the runner keeps a job's artifacts; it has its own way to write a colon."""
    return repository / STATE / "artifacts" / job.replace(":", "Og")


class RunPipeline(Protocol):
    """Runs a pipeline of ``repository`` as GitLab would for ``source``; see the fixture."""

    def __call__(
        self,
        repository: Path,
        source: str,
        variables: Mapping[str, str] | None = None,
        *,
        programs: Path | None = None,
        inputs: Mapping[str, str] | None = None,
        scoped: Mapping[str, Mapping[str, str]] | None = None,
        fresh: bool = False,
        file: str = ".gitlab-ci.yml",
        manual: str = "",
    ) -> Completed: ...


class SampleRepository(Protocol):
    """Makes a repository with the template and the given ``.gitlab-ci.yml``."""

    def __call__(self, gitlab_ci: str, files: Mapping[str, str] | None = None) -> Path: ...


class Expanded(Protocol):
    """Answers with the expanded configuration of a repository."""

    def __call__(self, repository: Path) -> dict[str, Any]: ...


def _missing_tool() -> str | None:
    if not RUNNER.exists():
        return "gitlab-ci-local is not installed: run `npm ci` in tests/node"
    if not shutil.which("rsync"):
        return "gitlab-ci-local needs rsync: `apt-get install rsync`"
    return None


@pytest.fixture(scope="session")
def runner() -> Path:
    """The path of gitlab-ci-local; without it tests are skipped, in CI they fail."""
    missing = _missing_tool()
    if missing and os.environ.get("CI"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    return RUNNER


def _environment(home: Path, programs: Path | None) -> dict[str, str]:
    """What the runner's machine gives a job: nothing of ours but PATH."""
    path = os.environ["PATH"]
    return {
        "PATH": f"{programs}{os.pathsep}{path}" if programs else path,
        "HOME": str(home),
        "LANG": "C.UTF-8",
    }


def _arguments(option: str, values: Mapping[str, str]) -> list[str]:
    return [part for name, value in values.items() for part in (option, f"{name}={value}")]


def _gitlab_ci_local(
    repository: Path, environment: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    # The schema has tests of its own; here it would be half of the time of a run.
    options = ["--force-shell-executor", "--no-color", "--no-json-schema-validation"]
    return subprocess.run(
        [str(RUNNER), *options, *arguments],
        cwd=repository,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture
def run_pipeline(runner: Path, tmp_path: Path) -> RunPipeline:
    """Runs a pipeline; ``variables`` are those of the pipeline and the project's settings.

    Jobs run in the repository itself, or each in a ``fresh`` copy, under the shell executor, which
    ignores ``image``. ``programs`` is a folder that comes first on PATH; ``inputs`` are the
    pipeline's inputs; ``scoped`` are variables whose values depend on the job's environment;
    ``file`` is the pipeline's; ``manual`` a manual job that somebody starts.
    What the template would install goes below ``tmp_path``; pip and npm have no network.
    """

    def _run_pipeline(
        repository: Path,
        source: str,
        variables: Mapping[str, str] | None = None,
        *,
        programs: Path | None = None,
        inputs: Mapping[str, str] | None = None,
        scoped: Mapping[str, Mapping[str, str]] | None = None,
        fresh: bool = False,
        file: str = ".gitlab-ci.yml",
        manual: str = "",
    ) -> Completed:
        home = tmp_path / "home"
        _write_scoped(home, scoped or {})
        given = {
            "CI_PIPELINE_SOURCE": source,
            **({} if fresh else {"CI_PROJECT_DIR": str(repository)}),
            "NIGHTSHIFT_TOOLS": str(tmp_path / "tools"),
            "PIP_NO_INDEX": "1",
            "NPM_CONFIG_OFFLINE": "true",
            **(variables or {}),
        }
        arguments = [
            *_arguments("--variable", given),
            *_arguments("--input", inputs or {}),
            f"--ignore-predefined-vars={','.join(given)}",
            f"--file={file}",
            *(["--shell-isolation"] if fresh else []),
            *([f"--manual={manual}"] if manual else []),
        ]
        done = _gitlab_ci_local(repository, _environment(home, programs), *arguments)
        return Completed(done.returncode, done.stdout + done.stderr, repository)

    return _run_pipeline


def _write_scoped(home: Path, scoped: Mapping[str, Mapping[str, str]]) -> None:
    """The file in which gitlab-ci-local looks for variables with environment scopes."""
    variables = {k: {"type": "variable", "values": dict(v)} for k, v in scoped.items()}
    file = home / STATE / "variables.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"global": variables}))


@pytest.fixture
def expanded(runner: Path, tmp_path: Path) -> Expanded:
    """The whole configuration of a repository with includes, `extends` and defaults resolved."""

    def _expanded(repository: Path) -> dict[str, Any]:
        done = _gitlab_ci_local(repository, _environment(tmp_path, None), "--preview")
        assert done.returncode == 0, done.stderr
        return dict(yaml.safe_load(done.stdout))

    return _expanded


def _git(repository: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True)


@pytest.fixture
def sample_repository(tmp_path: Path) -> SampleRepository:
    """Makes sample repositories below ``tmp_path``, one commit on ``main`` each."""

    def _sample_repository(gitlab_ci: str, files: Mapping[str, str] | None = None) -> Path:
        repository = tmp_path / f"sample-{len(list(tmp_path.glob('sample-*')))}"
        everything = {
            ".gitignore": f"{STATE}/\n",
            ".gitlab-ci.yml": gitlab_ci,
            "ci/templates/.gitlab-ci.yml": TEMPLATE.read_text(),
            **(files or {}),
        }
        for name, text in everything.items():
            path = repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        _git(repository, "init", "--quiet", "--initial-branch=main")
        _git(repository, "config", "user.name", "Sample")
        _git(repository, "config", "user.email", "sample@example.com")
        _git(repository, "add", "--all")
        _git(repository, "commit", "--quiet", "--message=Sample")
        _git(repository, "remote", "add", "origin", "https://gitlab.example.com/team/app.git")
        _git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
        _git(repository, "remote", "set-head", "origin", "main")
        return repository

    return _sample_repository


@dataclass(frozen=True)
class Recorded:
    """A call of `nightshift`: its arguments, its whole environment, and the files of nightshift/
    that were there."""

    argv: list[str]
    variables: dict[str, str]
    files: list[str]


@dataclass(frozen=True)
class Recorder:
    """A stand-in for `nightshift` that notes how it was called and leaves the night's files."""

    programs: Path

    @property
    def called(self) -> bool:
        return bool(self.calls)

    @property
    def calls(self) -> list[Recorded]:
        """Every call, in order."""
        file = self.programs / "calls.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [Recorded(**json.loads(line)) for line in lines]

    @property
    def argv(self) -> list[str]:
        return self.calls[-1].argv

    @property
    def variables(self) -> dict[str, str]:
        return self.calls[-1].variables

    def fail_with(self, status: int, command: str = "run") -> None:
        (self.programs / f"status-{command}").write_text(str(status))


NIGHTSHIFT_STAND_IN = (
    f"#!{sys.executable}\n"
    + """\
import json, os, pathlib, sys
here, command = pathlib.Path(__file__).parent, sys.argv[1]
night = pathlib.Path("nightshift")
files = sorted(str(path.relative_to(night)) for path in night.rglob("*"))
call = {"argv": sys.argv[1:], "variables": dict(os.environ), "files": files}
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(call) + "\\n")
(night / "bundle").mkdir(parents=True, exist_ok=True)
(night / "bundle/bundle.json").write_text("{}")
(night / "junit.xml").write_text("<testsuites/>")
(night / "nightshift.env").write_text(f"NIGHT_OUTCOME=MR_CREATED\\nSENT_BY_{command.upper()}=1\\n")
if command == "plan":
    (night / "plan.json").write_text("{}")
status = here / f"status-{command}"
sys.exit(int(status.read_text()) if status.exists() else 0)
"""
)


def template_text() -> str:
    """The template without its header of inputs: the part that GitLab's schema describes."""
    header, line, content = TEMPLATE.read_text().partition("\n---\n")
    assert line, header
    return content


def check_schema(*files: Path) -> subprocess.CompletedProcess[str]:
    """GitLab's own schema, as check-jsonschema brings it."""
    arguments = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *arguments, *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )


def program(folder: Path, name: str, text: str) -> Path:
    """An executable file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def nightshift(tmp_path: Path) -> Recorder:
    """`nightshift` and an agent as an image would bring them, and an npm that may not be called."""
    programs = tmp_path / "programs"
    program(programs, "nightshift", NIGHTSHIFT_STAND_IN)
    program(programs, "claude", "#!/bin/sh\nexit 0\n")
    program(programs, "npm", "#!/bin/sh\necho npm was called >&2\nexit 99\n")
    return Recorder(programs)
