"""The build tools, and how each fetches dependencies in advance: tests run without a network
(docs/how-to/).

To add a tool: one row of ``STACKS``.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gitlab_nightshift.proof.implied_commands import (
    RUNS_PYTEST,
    VENVS,
    RepositoryFiles,
    find_test_commands,
)
from gitlab_nightshift.sandbox.visible_home import CACHES, find_tool_caches


@dataclass(frozen=True)
class Stack:
    """A build tool, recognized by a ``file`` at the root and, if it is not "", a ``pattern`` in
    that file. Of the stacks with the same ``installer``, a project has the first that matches.

    ``fetch`` is a shell command that gets the dependencies, run in the night's job before its
    agent; ``local_fetch`` is its variant for a person's machine, "" for the same. Then the test
    command needs ``option``, and the job ``variables``; agents and commands get those in
    ``agent_env``.

    ``night_folder`` is the folder in ``option``, ``python`` the interpreter of the virtual
    environment that ``fetch`` makes. A trial on a person's machine may read ``folders`` below HOME,
    besides the usual caches. ``sources`` names the files that ``fetch`` follows from, "" for
    ``file``.
    """

    file: str
    image: str = ""
    fetch: str = ""
    option: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    agent_env: tuple[str, ...] = ()
    night_folder: str = ""
    folders: tuple[str, ...] = ()
    installer: str = ""
    pattern: str = ""
    local_fetch: str = ""
    python: str = ""
    sources: str = ""

    @property
    def needs_own_fetch(self) -> bool:
        """True if the ``before_script`` of the project's jobs is not enough: a night has the
        dependencies in another folder."""
        cache = self.night_folder or any(each.variable in self.variables for each in CACHES)
        return bool(self.fetch and (self.python or (cache and self.installer != "node")))


_MAVEN = "-Dmaven.repo.local=/opt/m2"
_VENV = ".venv"
_NEW_VENV = f"python3 -m venv {_VENV}"
# The sandbox has a fresh HOME, so corepack and Yarn need their caches elsewhere. Without the second
# variable, corepack asks the network for the latest version each time.
_COREPACK = {"COREPACK_HOME": "/opt/corepack", "COREPACK_DEFAULT_TO_LATEST": "0"}
_YARN = {**_COREPACK, "YARN_GLOBAL_FOLDER": "/opt/yarn"}


def _build_corepack_stack(
    file: str, install: str, variables: Mapping[str, str], pattern: str = ""
) -> Stack:
    return Stack(
        file,
        fetch=f"corepack enable && {install}",
        local_fetch=install,
        pattern=pattern,
        installer="node",
        variables=variables,
        agent_env=tuple(variables),
    )


def _build_bun_stack(file: str) -> Stack:
    install = "bun install --frozen-lockfile"
    fetch = f"(command -v bun || npm install --global bun) && {install}"
    return Stack(file, fetch=fetch, local_fetch=install, installer="node", folders=(".bun/bin",))


def _build_python_stack(
    file: str, fetch: str = "", local_fetch: str = "", pattern: str = ""
) -> Stack:
    python = f"{_VENV}/bin/python" if local_fetch else ""
    return Stack(
        file,
        "python:3",
        fetch,
        installer="python",
        local_fetch=local_fetch,
        pattern=pattern,
        python=python,
    )


def _build_python_tool_stack(file: str, tool: str, install: str, before: str = "") -> Stack:
    """Runs the tool as a module: pip's user installs are not on PATH."""
    fetch = f"pip install {tool} && {before}python3 -m {tool} {install}"
    return _build_python_stack(file, fetch, f"{before}{tool} {install}")


_INSTALLABLE = r"(?m)^\[(project|build-system)\]"
_PIP_WITH_GROUPS = "'pip>=25.1'"
"""The first pip with ``--group`` (PEP 735)."""

STACKS = (
    _build_corepack_stack("pnpm-lock.yaml", "pnpm install --frozen-lockfile", _COREPACK),
    _build_corepack_stack(
        "yarn.lock", "yarn install --immutable", _YARN, pattern="(?m)^__metadata:"
    ),
    _build_corepack_stack("yarn.lock", "yarn install --frozen-lockfile", _COREPACK),
    _build_bun_stack("bun.lock"),
    _build_bun_stack("bun.lockb"),
    Stack("package-lock.json", fetch="npm ci", installer="node"),
    Stack(
        "package.json",
        fetch="npm install --no-package-lock",
        installer="node",
        pattern='ependencies"',
        local_fetch="npm install",
    ),
    # A whole build: dependency:go-offline misses what plugins such as Surefire fetch at run time.
    Stack(
        "pom.xml",
        "maven:3-eclipse-temurin-21",
        f"mvn -B -q {_MAVEN} -Dmaven.test.failure.ignore test",
        _MAVEN,
        local_fetch="mvn -B -q -Dmaven.test.failure.ignore test",
        night_folder="/opt/m2",
    ),
    Stack("build.gradle", "gradle:8-jdk21"),
    Stack("build.gradle.kts", "gradle:8-jdk21"),
    # `build std`: since Go 1.20 the cache has the compiled standard library, too. goindex=0: go
    # cannot write its index into a read-only module cache.
    Stack(
        "go.mod",
        "golang:1",
        "go mod download && go build std && go test -run=NONE ./...",
        local_fetch="go mod download",
        variables={"GOCACHE": "/opt/gocache", "GOMODCACHE": "/opt/gomod", "GODEBUG": "goindex=0"},
        agent_env=("GOCACHE", "GOMODCACHE", "GODEBUG"),
    ),
    Stack(
        "Cargo.toml",
        "rust:1",
        "cargo fetch",
        variables={"CARGO_HOME": "/opt/cargo"},
        agent_env=("CARGO_HOME", "RUSTUP_HOME"),
    ),
    # Without the variable, composer runs no scripts and plugins as root.
    Stack(
        "composer.json",
        "composer:2",
        "composer install --no-interaction",
        variables={"COMPOSER_ALLOW_SUPERUSER": "1"},
        agent_env=("COMPOSER_ALLOW_SUPERUSER",),
    ),
    Stack(
        "Gemfile",
        "ruby:3",
        "bundle install",
        local_fetch="bundle config set --local path vendor/bundle && bundle install",
        variables={"BUNDLE_PATH": "/opt/bundle"},
        agent_env=("BUNDLE_PATH",),
    ),
    _build_python_tool_stack("uv.lock", "uv", "sync --frozen"),
    # Poetry reads the setting only if its cache has no environment for the project. An existing
    # .venv goes before both.
    _build_python_tool_stack(
        "poetry.lock", "poetry", "install", f"{_NEW_VENV} && POETRY_VIRTUALENVS_IN_PROJECT=1 "
    ),
    _build_python_tool_stack("pdm.lock", "pdm", "sync"),
    _build_python_tool_stack("Pipfile.lock", "pipenv", "sync --dev", "PIPENV_VENV_IN_PROJECT=1 "),
    _build_python_stack("requirements.txt", "pip install -r requirements.txt"),
    _build_python_stack("pyproject.toml", "pip install -e .", pattern=_INSTALLABLE),
    _build_python_stack(
        "pyproject.toml", "pip install --group", pattern=r"(?m)^\[dependency-groups\]"
    ),
    _build_python_stack("setup.py", "pip install -e ."),
    _build_python_stack("pyproject.toml"),
)
"""The images are the tools' official ones; the template's own image has Node."""
BUILD_FILES = frozenset({"package.json", *(stack.file for stack in STACKS if stack.image)})
_MORE_REQUIREMENTS = tuple(
    name.format(kind)
    for name in ("requirements-{}.txt", "requirements_{}.txt", "{}-requirements.txt")
    for kind in ("dev", "test", "tests")
)
_TEST_GROUPS = ("test", "tests", "testing", "dev")
_RUNS_PYTHON = re.compile(
    r"^(uv run --offline --no-sync python|(poetry|pdm|pipenv) run python|python3|\S+/bin/python) "
)


@dataclass(frozen=True)
class TrialEnvironment:
    """The differences of a person's machine, where commands are tried, from a night's job:
    ``variables`` for the commands, ``folders`` that the sandbox may read, and ``local_paths``, by
    the paths in a night's job."""

    variables: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    local_paths: Mapping[str, str] = field(default_factory=dict)

    def use_local_paths(self, command: str) -> str:
        """The command with local paths."""
        for path, local_path in self.local_paths.items():
            command = command.replace(path, local_path)
        return command


def find_stacks(files: RepositoryFiles) -> tuple[Stack, ...]:
    """The build tools of a project."""
    stacks: dict[str, Stack] = {}
    for stack in STACKS:
        if stack.file not in files.paths:
            continue
        if not stack.pattern or re.search(stack.pattern, files.read_text(stack.file)):
            stacks.setdefault(stack.installer or stack.file, _add_test_requirements(stack, files))
    return tuple(stacks.values())


def _add_test_requirements(stack: Stack, files: RepositoryFiles) -> Stack:
    """The stack, so that pip or uv also installs what the tests require: pip into a virtual
    environment if the test command names an interpreter, else for the ``python`` on PATH, which a
    Makefile uses."""
    kind, name = _find_test_extra(files)
    if stack.file == "uv.lock" and name:
        option = f" --{kind} {name}"
        return replace(stack, fetch=stack.fetch + option, local_fetch=stack.local_fetch + option)
    if not stack.fetch.startswith("pip install -"):
        return stack
    arguments, sources = _choose_requirements(stack, files)
    if not arguments:
        return replace(stack, fetch="")
    pip, steps = "pip", []
    if any(_RUNS_PYTHON.match(each) for each in find_test_commands(files)):
        venvs = (each for each in VENVS if files.is_installed(f"{each}/bin/python"))
        folder = next(venvs, _VENV)
        stack = replace(stack, python=f"{folder}/bin/python")
        pip, steps = f"{folder}/bin/pip", [f"python3 -m venv {folder}"]
    if "--group" in arguments:
        steps.append(f"{pip} install --upgrade {_PIP_WITH_GROUPS}")
    steps.append(f"{pip} install {arguments}")
    return replace(stack, fetch=" && ".join(steps), sources=sources)


def _choose_requirements(stack: Stack, files: RepositoryFiles) -> tuple[str, str]:
    """The arguments of pip install, "" for none, and the names of the files that they are from."""
    if installs := _list_job_installs(files):
        return " ".join(installs), f"{stack.file} and .gitlab-ci.yml"
    arguments = stack.fetch.removeprefix("pip install ").removesuffix("--group")
    kind, name = _find_test_extra(files)
    if stack.file == "requirements.txt":
        arguments += "".join(f" -r {each}" for each in _MORE_REQUIREMENTS if each in files.paths)
    elif kind == "extra":
        arguments = f"-e '.[{name}]'"
    if kind == "group":
        arguments = f"{arguments} --group {name}".strip()
    return arguments, stack.file


def _list_job_installs(files: RepositoryFiles) -> list[str]:
    """The arguments of each ``pip install`` in the project's own pytest job."""
    jobs = re.split(r"(?m)^(?=[\w.])", files.read_text(".gitlab-ci.yml"))
    test_job = next((job for job in jobs if RUNS_PYTEST.search(job)), "")
    return [line[1].strip() for line in _PIP_LINE.finditer(test_job)]


_PIP_LINE = re.compile(
    r"(?m)^[ \t]*- (?:python3? -m )?pip3? install (?!(?:-U|--upgrade) pip\s*$)"
    r"([^|;&$<>`\"'#\n]+)(?:\s#.*)?$"
)


def _find_test_extra(files: RepositoryFiles) -> tuple[str, str]:
    """The kind, ``extra`` or ``group`` (PEP 735), and the name of the part of pyproject.toml that
    the tests require; ("", "") for none."""
    try:
        config = tomllib.loads(files.read_text("pyproject.toml"))
        extras = config.get("project", {}).get("optional-dependencies", {})
        named = [("extra", each) for each in extras]
        named += [("group", each) for each in config.get("dependency-groups", {})]
    except (tomllib.TOMLDecodeError, RecursionError, AttributeError, TypeError):
        return "", ""
    by_lower_name = {name.lower(): (kind, name) for kind, name in reversed(named)}
    return next((by_lower_name[each] for each in _TEST_GROUPS if each in by_lower_name), ("", ""))


def complete_command(command: str, stacks: Sequence[Stack]) -> str:
    """A test command from the build files, adapted to what ``fetch`` installs in a night's job."""
    for stack in stacks:
        if stack.option and re.match(r"(\./)?mvnw? ", command):
            return re.sub(r" test$", f" {stack.option} test", command)
        if stack.python:
            command = _RUNS_PYTHON.sub(f"{stack.python} ", command)
    return command


def list_installs(stacks: Sequence[Stack]) -> tuple[str, ...]:
    """The commands that install a project's dependencies on a person's machine."""
    return tuple(stack.local_fetch or stack.fetch for stack in stacks if stack.fetch)


def find_trial_environment(
    stacks: Sequence[Stack], env: Mapping[str, str], checkout: Path, files: RepositoryFiles
) -> TrialEnvironment:
    """The environment in which this machine tries the commands of these stacks."""
    home = Path(env.get("HOME", "/"))
    maven = find_tool_caches(env, home, checkout).maven or home / ".m2/repository"
    local_paths = {each.night_folder: str(maven) for each in stacks if each.night_folder}
    for stack in stacks:
        if stack.python and not files.is_installed(stack.python):
            local_paths[stack.python] = "python3"
    variables = [pair for stack in stacks for pair in stack.variables.items()]
    folders = [home / each for stack in stacks for each in stack.folders]
    return TrialEnvironment(
        # Absolute paths exist only in a night's job.
        {name: value for name, value in variables if not value.startswith("/")},
        tuple(str(folder) for folder in folders if folder.is_dir()),
        local_paths,
    )
