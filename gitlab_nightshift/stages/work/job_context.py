"""The part of a job that agents and commands may see, in a night and in a delegation."""

from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.proof.implied_commands import (
    BuildFiles,
    build_commands,
    list_default_allowed_commands,
)
from gitlab_nightshift.repository.git import Git
from gitlab_nightshift.run_context import RunContext
from gitlab_nightshift.sandbox.import_check import list_named_folders
from gitlab_nightshift.stages.work.checkout_programs import open_job_tools
from gitlab_nightshift.stages.work.model_access import MODEL_VARIABLES
from gitlab_nightshift.stages.work.proof_choice import Commands
from gitlab_nightshift.stages.work.tool_access import JobFolders
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_allowed_env
from gitlab_nightshift.system.raw_logs import build_logs


def build_job_context(
    run: RunContext,
    git: Git,
    network: Mapping[str, str],
    build_files: BuildFiles,
    verify: Commands,
    seconds: float | None,
    *,
    elsewhere: bool = False,
) -> WorkContext:
    """The input of the work stage, without any GitLab credential.

    ``network`` are the variables for this program's own connections, ``verify`` the commands that
    prove a change, ``seconds`` the time limit. ``elsewhere``: work runs in another checkout.
    """
    home = Path(run.env.get("HOME", "/"))
    folders = JobFolders(home, run.checkout, run.private)
    tools = open_job_tools(run.settings, run.env, git, folders, run.emit, elsewhere=elsewhere)
    settings, env = tools.settings, tools.env
    build = build_commands(build_files.files, build_files.read)
    default = list_default_allowed_commands(build_files.files, build_files.read)
    commands = settings.allowed_commands if settings.allowed_commands is not None else default
    model = (*build_provider(settings).keys, *MODEL_VARIABLES, *settings.agent_env)
    return WorkContext(
        settings=settings,
        job=run.job,
        env=build_allowed_env(env, settings.agent_env),
        model_env={name: env[name] for name in model if env.get(name)} | {**network},
        checkout=run.checkout,
        config_folder=run.config_folder,
        home=home,
        private=run.private,
        logs=build_logs(run.private, run.redact),
        allowed_commands=tuple(commands),
        build_commands=tuple(name for name in commands if name in build),
        verify=verify,
        seconds=seconds,
        redact=run.redact,
        emit=run.emit,
        named=() if elsewhere else list_named_folders(env, run.checkout),
        programs=tools.programs,
    )
