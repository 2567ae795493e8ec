"""Finds unusable ``notify`` addresses before any token is spent."""

import contextlib

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.run.supervisor.notifying import expand_addresses, find_names
from gitlab_nightshift.sandbox.process_table import NOTIFY_CHECK
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.report.outcome_message import pack_notify_request
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
