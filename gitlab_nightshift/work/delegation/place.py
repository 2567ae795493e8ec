"""What the work on a delegation is given: the part of the caller's environment that it may have."""

from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.events import Emit
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.environment import NETWORK, allowed
from gitlab_nightshift.host.logs import logs_in
from gitlab_nightshift.host.sandbox.own_code import folders_of
from gitlab_nightshift.records.delegation import Execution
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.settings import Job, Settings
from gitlab_nightshift.verdict.build_files import build_commands, default_allowed_commands
from gitlab_nightshift.work.access import MODEL_VARIABLES
from gitlab_nightshift.work.agents import provider_of
from gitlab_nightshift.work.baseline import Commands
from gitlab_nightshift.work.delegation.dependencies import with_installs
from gitlab_nightshift.work.delegation.source import Source
from gitlab_nightshift.work.delegation.workspace import Workspace
from gitlab_nightshift.work.stage import WorkPlace


def work_place(
    source: Source,
    workspace: Workspace,
    settings: Settings,
    execution: Execution,
    job: Job,
    env: Mapping[str, str],
    private: Path,
    seconds: float,
    redact: Redactor,
    emit: Emit,
) -> WorkPlace:
    """Everything that the work is given; no GitLab credential is in it."""
    files = git_verbs.tracked_files(source.git, workspace.path)

    def read(name: str) -> bytes | None:
        return git_verbs.read_file(source.git, workspace.path, workspace.base, name)

    build = build_commands(files, read)
    listed = settings.allowed_commands
    own = default_allowed_commands(files, read) if listed is None else listed
    commands = with_installs(own, execution, files)
    model = (*provider_of(settings).keys, *MODEL_VARIABLES, *NETWORK, *settings.agent_env)
    return WorkPlace(
        settings=settings,
        job=job,
        env=allowed(env, settings.agent_env),
        model_env={name: env[name] for name in model if env.get(name)},
        checkout=workspace.path,
        config_folder=source.top,
        home=Path(env.get("HOME", "/")),
        private=private,
        logs=logs_in(private, redact),
        allowed_commands=commands,
        build_commands=tuple(name for name in commands if name in build),
        verify=Commands(tuple(settings.verify_commands), implied=False),
        seconds=seconds,
        redact=redact,
        emit=emit,
        secrets=() if source.top == workspace.path else source.secrets,
        named=folders_of(env, workspace.path),
    )
