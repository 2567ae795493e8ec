"""The environment of a delegation's work: the part of the caller's that it may have."""

from collections.abc import Collection
from pathlib import Path

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.proof.implied_commands import build_commands, list_default_allowed_commands
from gitlab_nightshift.records.delegation_records import Execution
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.sandbox.import_check import list_named_folders
from gitlab_nightshift.stages.work.checkout_programs import open_job_tools
from gitlab_nightshift.stages.work.delegation.agent_choice import ProviderChoice
from gitlab_nightshift.stages.work.delegation.delegation_context import DelegationContext
from gitlab_nightshift.stages.work.model_access import MODEL_VARIABLES
from gitlab_nightshift.stages.work.proof_choice import Commands
from gitlab_nightshift.stages.work.tool_access import JobFolders
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.certificates import build_network_env
from gitlab_nightshift.system.environment import build_allowed_env
from gitlab_nightshift.system.raw_logs import build_logs

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


def build_work_context(
    context: DelegationContext, source: DelegationSource, base: str, chosen: ProviderChoice
) -> WorkContext:
    """Everything that the work is given, as if it were done in the caller's checkout; no GitLab
    credential is in it."""
    home = Path(context.env.get("HOME", "/"))
    in_place = context.payload.workspace.checkout_mode == "in_place"
    folders = JobFolders(home, source.top, context.private)
    tools = open_job_tools(
        chosen.settings, context.env, source.git, folders, context.emit, elsewhere=not in_place
    )
    settings, env = tools.settings, tools.env
    files = git_verbs.list_revision_files(source.git, source.top, base)

    def read(name: str) -> bytes | None:
        return git_verbs.read_file(source.git, source.top, base, name)

    build = build_commands(files, read)
    listed = settings.allowed_commands
    own = list_default_allowed_commands(files, read) if listed is None else listed
    commands = with_installs(own, context.payload.execution, files)
    network = build_network_env(env, context.folder, context.private)
    model = (*build_provider(settings).keys, *MODEL_VARIABLES, *settings.agent_env)
    return WorkContext(
        settings=settings,
        job=context.job,
        env=build_allowed_env(env, settings.agent_env),
        model_env={name: env[name] for name in model if env.get(name)} | network,
        checkout=source.top,
        config_folder=source.top,
        home=home,
        private=context.private,
        logs=build_logs(context.private, Redactor(())),
        allowed_commands=commands,
        build_commands=tuple(name for name in commands if name in build),
        verify=Commands(tuple(settings.verify_commands), implied=False),
        seconds=context.compute_left_s(),
        redact=Redactor(()),
        emit=context.emit,
        secrets=() if in_place else source.secrets,
        named=list_named_folders(env, source.top) if in_place else (),
        programs=tools.programs,
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
