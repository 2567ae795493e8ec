"""Builds the input of the work stage: the part of the job that agents and commands may see."""

import functools
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.agents import build_provider, choose_agent
from gitlab_nightshift.proof.implied_commands import (
    BuildFiles,
    build_commands,
    find_test_commands,
    list_default_allowed_commands,
)
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.records.task_text import TaskCommand
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.sandbox.import_check import list_named_folders
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.trigger import build_test_command
from gitlab_nightshift.stages.work.checkout_programs import open_job_tools
from gitlab_nightshift.stages.work.model_access import MODEL_VARIABLES
from gitlab_nightshift.stages.work.proof_choice import Commands
from gitlab_nightshift.stages.work.tool_access import JobFolders
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_allowed_env

PUBLISH_NEEDS_S = 300.0
"""Seconds reserved for publishing, at most a fifth of the job."""


def build_work_context(session: Session, request: TaskRequest | None = None) -> WorkContext:
    """The input of the work stage, without any GitLab credential."""
    home = Path(session.env.get("HOME", "/"))
    chosen = choose_agent(session.settings, session.search_env).settings
    folders = JobFolders(home, session.checkout, session.private)
    tools = open_job_tools(chosen, session.env, session.git, folders, session.emit)
    settings, env = tools.settings, tools.env
    build_files = _read_build_files(session)
    build = build_commands(build_files.files, build_files.read)
    default = list_default_allowed_commands(build_files.files, build_files.read)
    commands = settings.allowed_commands if settings.allowed_commands is not None else default
    model = (*build_provider(settings).keys, *MODEL_VARIABLES, *settings.agent_env)
    return WorkContext(
        settings=settings,
        job=session.job,
        env=build_allowed_env(env, settings.agent_env),
        model_env={name: env[name] for name in model if env.get(name)} | session.network,
        checkout=session.checkout,
        config_folder=session.config_folder,
        home=home,
        private=session.private,
        logs=session.logs,
        allowed_commands=tuple(commands),
        build_commands=tuple(name for name in commands if name in build),
        verify=find_verify_commands(session, request, build_files),
        seconds=compute_work_seconds(session, datetime.now(UTC)),
        redact=session.redact,
        emit=session.emit,
        named=list_named_folders(session.env, session.checkout),
        programs=tools.programs,
    )


def find_verify_commands(
    session: Session, request: TaskRequest | None = None, build_files: BuildFiles | None = None
) -> Commands:
    """The commands that prove a change: the team's own, or else those of the build files, plus the
    test that a comment or ``task_test`` names. Raises ``E_CONFIG`` for a test that is not
    listed."""
    asked = (test,) if (test := request.test if request else _find_task_test(session)) else ()
    if own := session.settings.verify_commands:
        return Commands(tuple(dict.fromkeys((*own, *asked))), implied=False)
    implied = find_test_commands(build_files or _read_build_files(session))
    return Commands(tuple(dict.fromkeys((*implied, *asked))), implied=True)


def _find_task_test(session: Session) -> str:
    """The command that ``task_test`` names, "" without one."""
    task, words = session.settings.task, (session.settings.task_test or "").split()
    if not task or not words:
        return ""
    asked = TaskCommand(task, test_id=words[0], test_args=tuple(words[1:]))
    return build_test_command(asked, session.settings.policy.test_commands)


def compute_work_seconds(session: Session, now: datetime) -> float | None:
    """Seconds that work may take: the rest of the job, less the time to publish."""
    settings, job = session.settings, session.job
    if settings.run_timeout is not None or job.job_timeout_s is None:
        return settings.run_timeout
    try:
        used = (now - datetime.fromisoformat(job.job_started_at)).total_seconds()
    except (ValueError, TypeError):
        used = 0.0
    reserve = min(PUBLISH_NEEDS_S, job.job_timeout_s / 5)
    return max(job.job_timeout_s - max(used, 0.0) - reserve, 1.0)


def _read_build_files(session: Session) -> BuildFiles:
    """The files as committed, each read at most once. Call before an agent starts."""

    @functools.cache
    def read(name: str) -> bytes | None:
        return git_verbs.read_file(session.git, session.checkout, "HEAD", name)

    files = git_verbs.list_tracked_files(session.git, session.checkout)
    return BuildFiles(files, read, lambda path: (session.checkout / path).exists())
