"""What the work stage needs of a run: the part of the job that agents and commands may have."""

import functools
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.environment import NETWORK, allowed
from gitlab_nightshift.host.sandbox.own_code import folders_of
from gitlab_nightshift.host.sandbox.system import Look
from gitlab_nightshift.plan.trigger import test_command
from gitlab_nightshift.records import Request
from gitlab_nightshift.records.asked import Asked
from gitlab_nightshift.session import Session
from gitlab_nightshift.verdict.build_files import build_commands, default_allowed_commands
from gitlab_nightshift.verdict.test_commands import BuildFiles, implied_tests
from gitlab_nightshift.work.access import MODEL_VARIABLES
from gitlab_nightshift.work.agents import chosen, provider_of
from gitlab_nightshift.work.baseline import Commands
from gitlab_nightshift.work.stage import WorkPlace

PUBLISH_NEEDS_S = 300.0
"""Seconds of the job that are kept back for publishing, at most a fifth of the job."""


def work_place(
    session: Session, request: Request | None = None, look: Look | None = None
) -> WorkPlace:
    """Everything that the work stage is given; no GitLab credential is in it."""
    settings = chosen(session.settings, session.env).settings
    there = _build_files(session)
    build = build_commands(there.files, there.read)
    default = default_allowed_commands(there.files, there.read)
    commands = settings.allowed_commands if settings.allowed_commands is not None else default
    model = (*provider_of(settings).keys, *MODEL_VARIABLES, *NETWORK, *settings.agent_env)
    return WorkPlace(
        settings=settings,
        job=session.job,
        env=allowed(session.env, settings.agent_env),
        model_env={name: session.env[name] for name in model if session.env.get(name)},
        checkout=session.checkout,
        config_folder=session.config_folder,
        home=Path(session.env.get("HOME", "/")),
        private=session.private,
        logs=session.logs,
        allowed_commands=tuple(commands),
        build_commands=tuple(name for name in commands if name in build),
        verify=verify_commands(session, request, there),
        seconds=work_seconds(session, datetime.now(UTC)),
        redact=session.redact,
        emit=session.emit,
        named=folders_of(session.env, session.checkout),
        look=look,
    )


def verify_commands(
    session: Session, request: Request | None = None, there: BuildFiles | None = None
) -> Commands:
    """What proves a change: the team's own commands, else what the build files say; and the test
    that a comment or ``task_test`` asks for. Raises ``E_CONFIG`` for a test that is not listed."""
    asked = (test,) if (test := request.test if request else _task_test(session)) else ()
    if own := session.settings.verify_commands:
        return Commands(tuple(dict.fromkeys((*own, *asked))), implied=False)
    implied = implied_tests(there or _build_files(session))
    return Commands(tuple(dict.fromkeys((*implied, *asked))), implied=True)


def _task_test(session: Session) -> str:
    """The command that ``task_test`` names, "" without one."""
    task, words = session.settings.task, (session.settings.task_test or "").split()
    if not task or not words:
        return ""
    asked = Asked(task, test_id=words[0], test_args=tuple(words[1:]))
    return test_command(asked, session.settings.policy.test_commands)


def work_seconds(session: Session, now: datetime) -> float | None:
    """Seconds that the work may take: what is left of the job, less what publish needs."""
    settings, job = session.settings, session.job
    if settings.run_timeout is not None or job.job_timeout_s is None:
        return settings.run_timeout
    try:
        used = (now - datetime.fromisoformat(job.job_started_at)).total_seconds()
    except (ValueError, TypeError):
        used = 0.0
    reserve = min(PUBLISH_NEEDS_S, job.job_timeout_s / 5)
    return max(job.job_timeout_s - max(used, 0.0) - reserve, 1.0)


def _build_files(session: Session) -> BuildFiles:
    """As they stand in the commit: asked for before an agent starts, each read once."""

    @functools.cache
    def read(name: str) -> bytes | None:
        return git_verbs.read_file(session.git, session.checkout, "HEAD", name)

    files = git_verbs.tracked_files(session.git, session.checkout)
    return BuildFiles(files, read, lambda path: (session.checkout / path).exists())
