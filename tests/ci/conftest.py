"""Runs the CI template in sample repositories with a real runner, gitlab-ci-local."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, Protocol

import pytest
import yaml

from tests.support import kept, warm
from tests.support.programs import need_program
from tests.support.world import FEW_FAULTS

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "ci/templates/.gitlab-ci.yml"
RUNNER = ROOT / "tests/node/node_modules/.bin/gitlab-ci-local"
STATE = ".gitlab-ci-local"
LIMIT_S = 600
INCLUDE = "include:\n  - local: ci/templates/.gitlab-ci.yml\n"
THREE_JOBS = f"{INCLUDE}    inputs: {{shape: three-jobs}}\n"
CHECK = f"{INCLUDE}    inputs: {{check: true}}\n"
TEAM = "unit-tests:\n  script: [echo a job of the team]\n  rules: [{when: always}]\n"
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
"""A project with stages, defaults and a workflow of its own."""
SERVED_PROJECT = RICH_PROJECT.replace("default:\n", "default:\n  services: [postgres]\n")
"""With what only a container runs: to be looked at."""
NIGHT = {"NIGHTSHIFT": "true"}
PREDEFINED = ("CI_PIPELINE_SOURCE", "CI_PIPELINE_SCHEDULE_DESCRIPTION")
GIT_CONFIG = """\
[user]
\tname = Sample
\temail = sample@example.com
[remote "origin"]
\turl = https://gitlab.example.com/team/app.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
"""
TOKEN = "glpat-TokenOfTheNight01"
KEY = "sk-ModelKeyOfTheNight02"
APPROVE = "nightshift:approve"
Files = tuple[tuple[str, str], ...]
"""Names and texts."""
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
        # the runner does not check the `regex` of an input, and says so in the same form
        found = re.findall(r"^ (PASS|FAIL|WARN)  (?!spec:)(\S+)", self.log, re.MULTILINE)
        return {name: result for result, name in found}

    def artifacts(self, job: str) -> Path:
        """The folder that holds what a job's artifacts kept."""
        return artifacts_folder(self.repository, job)


def artifacts_folder(repository: Path, job: str) -> Path:
    """Where the runner keeps a job's artifacts; it has its own way to write a colon."""
    return repository / STATE / "artifacts" / job.replace(":", "Og")


@dataclass(frozen=True)
class Child:
    """A pipeline among several of one run: its ``.gitlab-ci.yml``, source and variables."""

    text: str
    source: str = "schedule"
    variables: Mapping[str, str] = field(default_factory=lambda: NIGHT)


@dataclass(frozen=True)
class Ran:
    """What ran in a child: results by job, its lines of the log, its calls of `nightshift`."""

    jobs: dict[str, str]
    log: str
    calls: list[Recorded]


class RunPipeline(Protocol):
    """Runs a pipeline of ``repository`` as GitLab would for ``source``; see ``run_in``."""

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


@pytest.fixture(scope="session")
def runner() -> Path:
    """The path of gitlab-ci-local; it needs rsync."""
    assert RUNNER.exists(), "run `npm ci` in tests/node"
    need_program("rsync")
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
    command = [str(RUNNER), *options, *arguments]
    # A file: of more than a pipe holds (64 KiB, pipe(7)) Node may lose the end when it exits.
    with tempfile.TemporaryFile("w+") as printed:
        done = subprocess.run(
            command,
            cwd=repository,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        printed.seek(0)
        return subprocess.CompletedProcess(command, done.returncode, printed.read(), done.stderr)


def run_in(
    folder: Path,
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
    """Run a pipeline; ``variables`` are those of the pipeline and the project's settings.

    Jobs run in the repository itself, or each in a ``fresh`` copy, under the shell executor, which
    ignores ``image``. ``programs`` is a folder that comes first on PATH; ``inputs`` are the
    pipeline's inputs; ``scoped`` are variables whose values depend on the job's environment;
    ``file`` is the pipeline's; ``manual`` a manual job that somebody starts.
    One job at a time: children of one parent share the runner's folders.
    """
    home = folder / "home"
    _write_scoped(home, scoped or {})
    given = {
        **({"CI_PIPELINE_SOURCE": source} if source else {}),
        **({} if fresh else {"CI_PROJECT_DIR": str(repository)}),
        **_settings(folder),
        **(variables or {}),
    }
    arguments = [
        *_arguments("--variable", given),
        *_arguments("--input", inputs or {}),
        f"--ignore-predefined-vars={','.join({'CI_PIPELINE_SOURCE', *given})}",
        f"--file={file}",
        "--concurrency=1",
        *(["--shell-isolation"] if fresh else []),
        *([f"--manual={manual}"] if manual else []),
    ]
    done = _gitlab_ci_local(repository, _environment(home, programs), *arguments)
    return Completed(done.returncode, done.stdout + done.stderr, repository)


def _settings(folder: Path) -> dict[str, str]:
    """What the template would install goes below a folder; pip and npm have no network."""
    return {
        "NIGHTSHIFT_TOOLS": str(folder / "tools"),
        "PIP_NO_INDEX": "1",
        "NPM_CONFIG_OFFLINE": "true",
    }


@pytest.fixture
def run_pipeline(runner: Path, tmp_path: Path) -> RunPipeline:
    """Runs pipelines; what they would install goes below ``tmp_path``."""
    return partial(run_in, tmp_path)


def run_children(
    folder: Path,
    children: Mapping[str, Child],
    files: Mapping[str, str] | None = None,
    *,
    nightshift: Recorder,
    scoped: Mapping[str, Mapping[str, str]] | None = None,
    fresh: bool = False,
    manual: str = "",
) -> tuple[dict[str, Ran], Completed]:
    """Run several pipelines, one after the other, as children of one parent.

    To each child its variables are those of a pipeline, ``CI_PIPELINE_SOURCE`` among them. A start
    of the runner costs as much as four of its pipelines.
    """
    own = {f"pipelines/{name}.yml": child.text for name, child in children.items()}
    settings = _settings(folder)
    parent = {name: _trigger(name, child, settings) for name, child in children.items()}
    repository = make_repository(
        folder, yaml.safe_dump(parent, sort_keys=False), {**own, **(files or {})}
    )
    done = run_in(
        *(folder, repository, ""),
        programs=nightshift.programs,
        scoped=scoped,
        fresh=fresh,
        manual=manual,
    )
    assert "pipeline finished" in done.log, done.log
    return {name: _ran(name, done.log, nightshift) for name in children}, done


def _trigger(name: str, child: Child, settings: Mapping[str, str]) -> dict[str, Any]:
    own = {"CI_PIPELINE_SOURCE": child.source, "CHILD": name}
    variables = {**settings, **own, **child.variables}
    include = [{"local": f"pipelines/{name}.yml"}]
    return {"variables": variables, "trigger": {"include": include, "strategy": "depend"}}


def _ran(name: str, log: str, nightshift: Recorder) -> Ran:
    head = f"\t[{name}] -> "
    own = [line.removeprefix(head) for line in log.splitlines() if line.startswith(head)]
    ends = (re.match(r"(\S+) +finished in .*? m?s(?: +(FAIL|WARN) \d+ *)?$", line) for line in own)
    jobs = {end[1]: end[2] or "PASS" for end in ends if end}
    calls = [call for call in nightshift.calls if call.variables.get("CHILD") == name]
    return Ran(jobs, "\n".join(own), calls)


def _write_scoped(home: Path, scoped: Mapping[str, Mapping[str, str]]) -> None:
    """The file in which gitlab-ci-local looks for variables with environment scopes."""
    variables = {k: {"type": "variable", "values": dict(v)} for k, v in scoped.items()}
    file = home / STATE / "variables.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"global": variables}))


@cache
def expanded(gitlab_ci: str, files: Files = ()) -> dict[str, Any]:
    """A configuration with includes, `extends` and defaults resolved."""
    return dict(yaml.safe_load(_asked(gitlab_ci, "--preview", files)))


def listed(gitlab_ci: str, files: Files = ()) -> dict[str, str]:
    """When each job of a configuration would run: its `when`, "never" among them."""
    jobs = json.loads(_asked(gitlab_ci, "--list-json", files))
    return {job["name"]: job["when"] for job in jobs}


def _asked(gitlab_ci: str, option: str, files: Files) -> str:
    folder = Path(tempfile.mkdtemp(prefix="asked-", dir=kept.folder))
    repository = make_repository(folder, gitlab_ci, dict(files))
    silent = f"--ignore-predefined-vars={','.join(PREDEFINED)}"
    done = _gitlab_ci_local(repository, _environment(folder, None), option, silent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _git(repository: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True)


def make_repository(folder: Path, gitlab_ci: str, files: Mapping[str, str] | None = None) -> Path:
    """A repository with the template and this ``.gitlab-ci.yml``, one commit on ``main``."""
    repository = folder / f"sample-{len(list(folder.glob('sample-*')))}"
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
    with (repository / ".git/config").open("a") as config:
        config.write(GIT_CONFIG)
    _git(repository, "add", "--all")
    _git(repository, "commit", "--quiet", "--message=Sample")
    _git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    _git(repository, "remote", "set-head", "origin", "main")
    return repository


@pytest.fixture
def sample_repository(tmp_path: Path) -> SampleRepository:
    """Makes sample repositories below ``tmp_path``."""
    return partial(make_repository, tmp_path)


@dataclass(frozen=True)
class Recorded:
    """A call of `nightshift`: its arguments, its whole environment, and the files of nightshift/
    that were there."""

    argv: list[str]
    variables: dict[str, str]
    files: list[str]


@dataclass(frozen=True)
class Recorder:
    """A stand-in for `nightshift` that notes how it was called and leaves the night's files.

    The variable ENDS_WITH holds the exit statuses of commands, such as ``work=5 approved=3``.
    """

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


NIGHTSHIFT_STAND_IN = (
    f"#!{sys.executable} -IS\n"
    + """\
import json, os, pathlib, sys
here, command = pathlib.Path(__file__).parent, sys.argv[1]
night = pathlib.Path("nightshift")
files = sorted(str(path.relative_to(night)) for path in night.rglob("*"))
call = {"argv": sys.argv[1:], "variables": dict(os.environ), "files": files}
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(call) + "\\n")
(night / "bundle").mkdir(parents=True, exist_ok=True)
(night / "bundle/bundle.json").write_text(json.dumps({"of": os.environ.get("CHILD")}))
(night / "junit.xml").write_text("<testsuites/>")
(night / "nightshift.env").write_text(f"NIGHT_OUTCOME=MR_CREATED\\nSENT_BY_{command.upper()}=1\\n")
if command == "plan":
    (night / "plan.json").write_text("{}")
ends = dict(row.split("=") for row in os.environ.get("ENDS_WITH", "").split())
sys.exit(int(ends.get("approved" if "--approved" in sys.argv else command, 0)))
"""
)


def template_text() -> str:
    """The template without its header of inputs: the part that GitLab's schema describes."""
    header, line, content = TEMPLATE.read_text().partition("\n---\n")
    assert line, header
    return content


def invalid(*files: Path) -> set[Path]:
    """The files in which GitLab's own schema, as check-jsonschema brings it, finds a mistake."""
    arguments = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *arguments, "-o", "json", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    assert report.get("parse_errors", []) == [], report
    return {Path(error["filename"]) for error in report.get("errors", [])}


def assert_approve_waits(jobs: Mapping[str, Any]) -> None:
    """The job for an approval waits for a person and downloads nothing of an agent by itself."""
    job = jobs[APPROVE]
    assert (job["when"], job["allow_failure"]) == ("manual", True)
    assert job["environment"] == {"name": "nightshift/approve", "action": "access"}
    assert [need["artifacts"] for need in job["needs"]] == [False, False]
    assert "dotenv" not in job["artifacts"]["reports"]


def program(folder: Path, name: str, text: str) -> Path:
    """An executable file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@contextmanager
def real_nightshift(programs: Path) -> Iterator[list[Recorded]]:
    """The real program in a folder of programs, forked with its imports; yields its calls."""
    calls: list[Recorded] = []

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            call = json.loads(self.rfile.readline())
            calls.append(Recorded(call["argv"], call["env"], []))
            argv, cwd, env = call["argv"], Path(call["cwd"]), call["env"]
            with warm.start(argv, cwd=cwd, env=env, before=FEW_FAULTS) as started:
                out, err = started.communicate()
            end = {"status": started.returncode, "out": out.decode(), "err": err.decode()}
            self.wfile.write(json.dumps(end).encode())

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            program(programs, "nightshift", RELAY.format(address=server.server_address))
            yield calls
        finally:
            server.shutdown()
            thread.join()


RELAY = (
    f"#!{sys.executable} -IS\n"
    + """\
import json, os, socket, sys
call = {{"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}
with socket.create_connection({address}) as server:
    server.sendall(json.dumps(call).encode() + b"\\n")
    end = json.load(server.makefile())
sys.stdout.write(end["out"])
sys.stderr.write(end["err"])
sys.exit(end["status"])
"""
)


def recorder(folder: Path) -> Recorder:
    """`nightshift` and an agent as an image would bring them, and an npm that may not be called."""
    programs = folder / "programs"
    program(programs, "nightshift", NIGHTSHIFT_STAND_IN)
    program(programs, "claude", "#!/bin/sh\nexit 0\n")
    program(programs, "npm", "#!/bin/sh\necho npm was called >&2\nexit 99\n")
    return Recorder(programs)


@pytest.fixture
def nightshift(tmp_path: Path) -> Recorder:
    return recorder(tmp_path)
