"""Finds addresses of ``notify`` by which nobody could be told, before a token is spent."""

import contextlib

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.run.supervisor.notifying import expand_addresses, find_names
from gitlab_nightshift.sandbox.process_table import NOTIFY_CHECK
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.session import Session
from gitlab_nightshift.stages.report.outcome_message import pack_notify_request
from gitlab_nightshift.system.environment import build_search_path


def check_addresses(session: Session, *, whole: bool) -> None:
    """Raise ``E_CONFIG`` for each address that apprise does not know. ``whole``: this job is the
    one that tells people, so that a variable which is not there is a mistake, too; an empty one is
    a way to tell nobody."""
    given = pack_notify_request(session.settings).get("addresses", ())
    if session.job.trigger_payload or not given:
        return
    wanted = [name for text in given for name in find_names(text)]
    mistakes = [
        f"notify: the variable {name} is not set in this job: set it, empty for nobody"
        for name in dict.fromkeys(wanted)
        if whole and session.job.in_ci and name not in session.env
    ]
    mistakes += _find_unknown(session, expand_addresses(given, session.env)[0])
    if mistakes:
        raise build_config_error("\n".join(mistakes))


def _find_unknown(session: Session, addresses: tuple[str, ...]) -> list[str]:
    """In a process without the token, as apprise loads some hundred modules."""
    if not addresses:
        return []
    env = {"PATH": build_search_path(session.env, session.checkout)}
    with contextlib.closing(StageProcess(NOTIFY_CHECK, env, quiet=True)) as process:
        process.send_task({"checked": addresses})
        found: list[str] = process.read_answer().get("unknown", [])
    return found
