"""The environment of a delegation's work: the part of the caller's that it may have."""

import dataclasses
import functools
from collections.abc import Collection

from gitlab_nightshift.proof.implied_commands import BuildFiles
from gitlab_nightshift.records.delegation_records import Execution
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.run_context import RunContext
from gitlab_nightshift.stages.work.delegation.agent_choice import ProviderChoice
from gitlab_nightshift.stages.work.delegation.delegation_context import DelegationContext
from gitlab_nightshift.stages.work.job_context import build_job_context
from gitlab_nightshift.stages.work.proof_choice import Commands
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.network_settings import build_network_env

_LOCKED = {
    "package-lock.json": "npm ci",
    "npm-shrinkwrap.json": "npm ci",
    "yarn.lock": "yarn install --immutable",
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "bun.lock": "bun install --frozen-lockfile",
    "uv.lock": "uv sync --frozen",
    "poetry.lock": "poetry sync",
    "pdm.lock": "pdm sync",
    "Pipfile.lock": "pipenv sync",
    "Gemfile.lock": "bundle install --frozen",
    "composer.lock": "composer install",
    "Cargo.lock": "cargo fetch --locked",
    "go.sum": "go mod download",
    "mix.lock": "mix deps.get --check-locked",
    "packages.lock.json": "dotnet restore --locked-mode",
}
"""Lock file at the root → the command that installs exactly what it names."""
_INSTALLERS = frozenset(
    """npm yarn pnpm bun pip pip3 uv poetry pdm pipenv bundle gem composer cargo go mix dotnet
    apt-get apk""".split()
)


def build_delegated_context(
    context: DelegationContext, source: DelegationSource, base: str, chosen: ProviderChoice
) -> WorkContext:
    """Everything that the work is given, as if it were done in the caller's checkout; no GitLab
    credential is in it."""
    in_place = context.payload.workspace.checkout_mode == "in_place"
    files = git_verbs.list_revision_files(source.git, source.top, base)
    read = functools.partial(git_verbs.read_file, source.git, source.top, base)
    run = RunContext(
        settings=chosen.settings,
        job=context.job,
        env=context.env,
        checkout=source.top,
        config_folder=source.top,
        private=context.private,
        redact=Redactor(()),
        emit=context.emit,
    )
    work_context = build_job_context(
        run,
        source.git,
        build_network_env(context.env, context.folder, context.private),
        BuildFiles(files, read),
        Commands(tuple(chosen.settings.verify_commands), implied=False),
        context.compute_left_s(),
        elsewhere=not in_place,
    )
    commands = with_installs(work_context.allowed_commands, context.payload.execution, files)
    return dataclasses.replace(
        work_context,
        allowed_commands=commands,
        build_commands=tuple(name for name in commands if name in work_context.build_commands),
        secrets=() if in_place else source.secrets,
    )


def with_installs(
    commands: Collection[str], execution: Execution, files: Collection[str]
) -> tuple[str, ...]:
    """The commands that an agent may run, with those that the dependency policy adds."""
    policy = execution.dependency_policy
    if policy == "deny_install":
        locked = set(_LOCKED.values())
        return tuple(c for c in commands if c not in _INSTALLERS and c not in locked)
    if execution.network == "off":
        return tuple(commands)
    own = [command for lock, command in _LOCKED.items() if lock in files]
    if policy == "allow_install":
        own = [command.split()[0] for command in own]
    return tuple(dict.fromkeys((*commands, *own)))
