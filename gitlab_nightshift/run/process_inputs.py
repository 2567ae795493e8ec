"""Builds the inputs of the processes after plan: what work, and so agents and commands, may know
about the job, and whom to notify at the end.
"""

import contextlib
import dataclasses
import functools
from datetime import UTC, datetime
from typing import Any

from gitlab_nightshift.agents import choose_agent
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.proof.implied_commands import RepositoryFiles, find_test_commands
from gitlab_nightshift.records.request import TaskCommand, TaskRequest
from gitlab_nightshift.repository.git import read_committed_file
from gitlab_nightshift.run.supervisor.notices import expand_addresses, find_names
from gitlab_nightshift.sandbox.process_table import NOTIFY_CHECK
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.comment_request import build_test_command
from gitlab_nightshift.stages.plan.earlier_runs import find_last_outcome
from gitlab_nightshift.stages.report.result_texts import CHANGES, pack_notify_request
from gitlab_nightshift.stages.work.work_context import (
    VerifyCommands,
    WorkContext,
    build_job_context,
)
from gitlab_nightshift.system.environment import build_search_path

PUBLISH_NEEDS_S = 300.0
"""Seconds of a job that are reserved for publishing; at most a fifth of the job's timeout."""


def build_work_context(session: Session, request: TaskRequest | None = None) -> WorkContext:
    """The input of the work stage, without any GitLab credential."""
    settings = choose_agent(session.settings, session.search_env).settings
    for_agent = dataclasses.replace(session, settings=settings)
    files = _open_committed_files(session)
    verify = find_verify_commands(session, request, files)
    seconds = compute_work_seconds(session, datetime.now(UTC))
    return build_job_context(for_agent, session.git, session.network, files, verify, seconds)


def find_verify_commands(
    session: Session, request: TaskRequest | None = None, files: RepositoryFiles | None = None
) -> VerifyCommands:
    """The commands that prove a change: ``verify_commands``, or without those the build files', and
    the test that a comment or ``task_test`` names. Raises ``E_CONFIG`` for a test that is not
    listed."""
    test = request.test if request else _find_task_test(session)
    own = session.settings.verify_commands
    commands = own or find_test_commands(files or _open_committed_files(session))
    unique = dict.fromkeys((*commands, test) if test else commands)
    return VerifyCommands(tuple(unique), implied=not own)


def _find_task_test(session: Session) -> str:
    """The command that ``task_test`` names, "" without one."""
    task, words = session.settings.task, (session.settings.task_test or "").split()
    if not task or not words:
        return ""
    command = TaskCommand(task, test_id=words[0], test_args=tuple(words[1:]))
    return build_test_command(command, session.settings.policy.test_commands)


def compute_work_seconds(session: Session, now: datetime) -> float | None:
    """Seconds for work: what the job has left, less the time to publish; None without a limit."""
    settings, job = session.settings, session.job
    if settings.run_timeout is not None or job.job_timeout_s is None:
        return settings.run_timeout
    try:
        elapsed_s = (now - datetime.fromisoformat(job.job_started_at)).total_seconds()
    except (ValueError, TypeError):  # TypeError: no time zone
        elapsed_s = 0.0
    reserve_s = min(PUBLISH_NEEDS_S, job.job_timeout_s / 5)
    return max(job.job_timeout_s - max(elapsed_s, 0.0) - reserve_s, 1.0)


def _open_committed_files(session: Session) -> RepositoryFiles:
    """The files as committed, each read at most once. Call this before any agent starts."""

    @functools.cache
    def read(name: str) -> bytes | None:
        return read_committed_file(session.git, session.checkout, "HEAD", name)

    return RepositoryFiles(
        session.known_checkout.files, read, lambda path: (session.checkout / path).exists()
    )


# --- whom to notify -------------------------------------------------------------------------------


def check_addresses(session: Session, *, single_job: bool) -> None:
    """Raise ``E_CONFIG`` for addresses that apprise does not support. ``single_job``: this job
    sends notifications itself, so a missing variable is an error, too; an empty one is nobody."""
    texts = pack_notify_request(session.settings).get("addresses", ())
    if session.job.trigger_payload or not texts:
        return
    names = [name for text in texts for name in find_names(text)]
    mistakes = [
        f"notify: the variable {name} is not set in this job: set it, empty for nobody"
        for name in dict.fromkeys(names)
        if single_job and session.job.in_ci and name not in session.env
    ]
    addresses, _ = expand_addresses(texts, session.env)
    mistakes += _check_with_apprise(session, addresses)
    if mistakes:
        raise build_config_error("\n".join(mistakes))


def _check_with_apprise(session: Session, addresses: tuple[str, ...]) -> list[str]:
    """An error message for each address that apprise does not support. Apprise, which imports a
    hundred modules, runs in a process without the token."""
    if not addresses:
        return []
    env = {"PATH": build_search_path(session.env, session.checkout)}
    with contextlib.closing(StageProcess(NOTIFY_CHECK, env, quiet=True)) as process:
        process.send_task({"checked": addresses})
        messages: list[str] = process.read_answer().get("unknown", [])
    return messages


def build_notify_request(session: Session) -> dict[str, Any]:
    """The input of the process that notifies people of this run, without the values of variables.
    {} if there is nobody to notify; whoever commented gets a reply in the thread instead."""
    settings, job = session.settings, session.job
    if job.trigger_payload or not (request := pack_notify_request(settings)):
        return {}
    if CHANGES in settings.notify_on and session.secrets.gitlab_token and job.project_id:
        request["before"] = find_last_outcome(session.open_project(), job, settings.output_dir)
    return request
