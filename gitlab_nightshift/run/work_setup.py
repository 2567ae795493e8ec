"""Builds the input of the work stage: the part of the job that agents and commands may see."""

import dataclasses
import functools
from datetime import UTC, datetime

from gitlab_nightshift.agents import choose_agent
from gitlab_nightshift.proof.implied_commands import (
    BuildFiles,
    find_test_commands,
)
from gitlab_nightshift.records.request import TaskCommand, TaskRequest
from gitlab_nightshift.repository.git import read_committed_file
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.trigger import build_test_command
from gitlab_nightshift.stages.work.work_context import Commands, WorkContext, build_job_context

PUBLISH_NEEDS_S = 300.0
"""Seconds reserved for publishing, at most a fifth of the job."""


def build_work_context(session: Session, request: TaskRequest | None = None) -> WorkContext:
    """The input of the work stage, without any GitLab credential."""
    chosen = choose_agent(session.settings, session.search_env).settings
    run = dataclasses.replace(session, settings=chosen)
    build_files = _read_build_files(session)
    verify = find_verify_commands(session, request, build_files)
    seconds = compute_work_seconds(session, datetime.now(UTC))
    return build_job_context(run, session.git, session.network, build_files, verify, seconds)


def find_verify_commands(
    session: Session, request: TaskRequest | None = None, build_files: BuildFiles | None = None
) -> Commands:
    """The commands that prove a change: the team's own, or else those of the build files, plus the
    test that a comment or ``task_test`` names. Raises ``E_CONFIG`` for a test that is not
    listed."""
    named = (test,) if (test := request.test if request else _find_task_test(session)) else ()
    if own := session.settings.verify_commands:
        return Commands(tuple(dict.fromkeys((*own, *named))), implied=False)
    implied = find_test_commands(build_files or _read_build_files(session))
    return Commands(tuple(dict.fromkeys((*implied, *named))), implied=True)


def _find_task_test(session: Session) -> str:
    """The command that ``task_test`` names, "" without one."""
    task, words = session.settings.task, (session.settings.task_test or "").split()
    if not task or not words:
        return ""
    named = TaskCommand(task, test_id=words[0], test_args=tuple(words[1:]))
    return build_test_command(named, session.settings.policy.test_commands)


def compute_work_seconds(session: Session, now: datetime) -> float | None:
    """Seconds that work may take: the rest of the job, less the time to publish."""
    settings, job = session.settings, session.job
    if settings.run_timeout is not None or job.job_timeout_s is None:
        return settings.run_timeout
    try:
        used = (now - datetime.fromisoformat(job.job_started_at)).total_seconds()
    except (ValueError, TypeError):  # TypeError: no zone
        used = 0.0
    reserve = min(PUBLISH_NEEDS_S, job.job_timeout_s / 5)
    return max(job.job_timeout_s - max(used, 0.0) - reserve, 1.0)


def _read_build_files(session: Session) -> BuildFiles:
    """The files as committed, each read at most once. Call before an agent starts."""

    @functools.cache
    def read(name: str) -> bytes | None:
        return read_committed_file(session.git, session.checkout, "HEAD", name)

    return BuildFiles(session.known.files, read, lambda path: (session.checkout / path).exists())
