"""How each build tool's dependencies get to where tests run without a network: docs/how-to/.

To add a tool: one row of ``STACKS``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.verdict.implied_commands import BuildFiles


@dataclass(frozen=True)
class Stack:
    """A build tool, by a file at the root. ``fetch`` is a shell command of the night's job before
    its agent, ``option`` what its test command needs then, ``variables`` what the job sets.

    ``night`` is the folder that ``option`` names. ``folders`` are what a person's machine has of
    all this, below HOME, and ``machine`` the variables that name it there. ``agent_env`` are
    variables that agents and commands get.
    """

    file: str
    image: str = ""
    fetch: str = ""
    option: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    agent_env: tuple[str, ...] = ()
    night: str = ""
    folders: tuple[str, ...] = ()
    machine: Mapping[str, str] = field(default_factory=dict)


_MAVEN = "-Dmaven.repo.local=/opt/m2"
STACKS = (
    Stack("package-lock.json", fetch="npm ci"),
    Stack("pnpm-lock.yaml", fetch="corepack enable && pnpm install --frozen-lockfile"),
    Stack("yarn.lock", fetch="corepack enable && yarn install --immutable"),
    # A whole build: dependency:go-offline misses what plugins fetch when they run, as Surefire.
    Stack(
        "pom.xml",
        "maven:3-eclipse-temurin-21",
        f"mvn -B -q {_MAVEN} -Dmaven.test.failure.ignore test",
        _MAVEN,
        night="/opt/m2",
        folders=(".m2/repository",),
    ),
    Stack("build.gradle", "gradle:8-jdk21"),
    Stack("build.gradle.kts", "gradle:8-jdk21"),
    # goindex: the index of a module cache that is read-only cannot be written.
    Stack(
        "go.mod",
        "golang:1",
        "go mod download && go build std && go test -run=NONE ./...",
        variables={"GOCACHE": "/opt/gocache", "GOMODCACHE": "/opt/gomod", "GODEBUG": "goindex=0"},
        agent_env=("GOCACHE", "GOMODCACHE", "GODEBUG"),
        folders=("go/pkg/mod",),
        machine={"GOMODCACHE": "go/pkg/mod"},
    ),
    Stack(
        "Cargo.toml",
        "rust:1",
        "cargo fetch",
        variables={"CARGO_HOME": "/opt/cargo"},
        agent_env=("CARGO_HOME", "RUSTUP_HOME"),
        folders=(".cargo/bin", ".cargo/registry", ".rustup"),
        machine={"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"},
    ),
    Stack("composer.json", "composer:2", "composer install --no-interaction"),
    Stack("Gemfile", "ruby:3"),
    Stack("requirements.txt", "python:3", "pip install -r requirements.txt"),
    Stack("pyproject.toml", "python:3", "pip install -e ."),
    Stack("setup.py", "python:3", "pip install -e ."),
)
"""The images are official ones that have the tool; Node is in the template's own."""
BUILD_FILES = frozenset({"package.json", *(stack.file for stack in STACKS if stack.image)})


@dataclass(frozen=True)
class TrialPlace:
    """Where a person's machine has what a night's job will have: ``variables`` for the commands,
    ``folders`` to open, and ``moves``, the night's folders and those here."""

    variables: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    moves: Mapping[str, str] = field(default_factory=dict)

    def move(self, command: str) -> str:
        """The command as it can be run here."""
        for there, here in self.moves.items():
            command = command.replace(there, here)
        return command


def find_stacks(build: BuildFiles) -> tuple[Stack, ...]:
    """The tools of a project; of those that fetch by one program the first."""
    seen: dict[str, Stack] = {}
    for stack in STACKS:
        if stack.file in build.files:
            seen.setdefault(stack.fetch.partition(" ")[0] or stack.file, stack)
    return tuple(seen.values())


def complete_command(command: str, stacks: Sequence[Stack]) -> str:
    """A test command that the build files imply, with what it needs in a night's job."""
    for stack in stacks:
        if stack.option and re.match(r"(\./)?mvnw? ", command):
            return re.sub(r" test$", f" {stack.option} test", command)
    return command


def find_trial_place(stacks: Sequence[Stack], home: Path) -> TrialPlace:
    """What of it is on this machine."""
    folders = [str(home / each) for stack in stacks for each in stack.folders]
    named = {n: home / place for stack in stacks for n, place in stack.machine.items()}
    plain = {
        name: value
        for stack in stacks
        for name, value in stack.variables.items()
        if not value.startswith("/")
    }
    return TrialPlace(
        {**plain, **{name: str(place) for name, place in named.items() if place.is_dir()}},
        tuple(each for each in folders if Path(each).is_dir()),
        {each.night: str(home / each.folders[0]) for each in stacks if each.night},
    )
