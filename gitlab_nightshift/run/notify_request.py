"""Whom a run notifies: checked before any token is spent."""

import contextlib
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.run.supervisor.notices import expand_addresses, find_names
from gitlab_nightshift.sandbox.process_table import NOTIFY_CHECK
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.plan.earlier_runs import find_last_outcome
from gitlab_nightshift.stages.report.outcome_message import CHANGES, pack_notify_request
from gitlab_nightshift.system.environment import build_search_path


def check_addresses(session: Session, *, single_job: bool) -> None:
    """Raise ``E_CONFIG`` for addresses that apprise does not know. ``single_job``: this job sends
    notifications itself, so a missing variable is an error too; an empty one means nobody."""
    texts = pack_notify_request(session.settings).get("addresses", ())
    if session.job.trigger_payload or not texts:
        return
    names = [name for text in texts for name in find_names(text)]
    mistakes = [
        f"notify: the variable {name} is not set in this job: set it, empty for nobody"
        for name in dict.fromkeys(names)
        if single_job and session.job.in_ci and name not in session.env
    ]
    mistakes += _find_unknown(session, expand_addresses(texts, session.env)[0])
    if mistakes:
        raise build_config_error("\n".join(mistakes))


def _find_unknown(session: Session, addresses: tuple[str, ...]) -> list[str]:
    """Ask apprise, which imports a hundred modules, in a process without the token."""
    if not addresses:
        return []
    env = {"PATH": build_search_path(session.env, session.checkout)}
    with contextlib.closing(StageProcess(NOTIFY_CHECK, env, quiet=True)) as process:
        process.send_task({"checked": addresses})
        found: list[str] = process.read_answer().get("unknown", [])
    return found


def build_notify_request(session: Session) -> dict[str, Any]:
    """The input of the process that notifies people of this run, without the values of variables.

    {} if it notifies nobody: a comment is answered in its thread, and a rehearsal is not a night.
    """
    settings = session.settings
    if session.job.trigger_payload or not (request := pack_notify_request(settings)):
        return {}
    if CHANGES in settings.notify_on:
        request["before"] = _find_outcome_before(session)
    return request


def _find_outcome_before(session: Session) -> str:
    job = session.job
    if not session.secrets.gitlab_token or not job.project_id:
        return ""
    return find_last_outcome(session.open_project(), job, session.settings.output_dir)
