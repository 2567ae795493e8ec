"""The process that notifies people of a run. It gets the result, and the addresses, which are
secrets, but no GitLab token. No other process loads apprise."""

import difflib
import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import read_own_record
from gitlab_nightshift.sandbox.supervised_process import serve_stage
from gitlab_nightshift.stages.report.confluence_page import append_to_page, render_line
from gitlab_nightshift.stages.report.result_texts import (
    Notification,
    build_notification,
    is_cancelled,
    is_wanted,
)
from gitlab_nightshift.system.signals import start_with_signals_blocked

LONGEST_S = 30.0
"""Seconds for all addresses together, which are notified at the same time."""
_SERVICES = "; https://appriseit.com lists the services"
Tasks = dict[str, Callable[[], str]]
"""Tasks by a name that is not secret; each returns why it failed, "" on success."""


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_notify)


def _notify(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Notify people of the run in ``results``, or send the ``message``. The answer is ``warnings``,
    one for each address that was not notified, called by its number in the list.

    With ``checked`` nobody is notified. The answer is then ``unknown``, a text for each address in
    ``checked`` that apprise does not know.
    """
    logging.disable()  # apprise logs addresses
    if "checked" in inputs:
        return {"unknown": describe_unknown_addresses(inputs["checked"])}
    if "message" in inputs:
        message = Notification(**inputs["message"])
        return {"warnings": send_to_all(inputs["addresses"], message, LONGEST_S)}
    result, tasks = read_own_record(RunResult, Path(inputs["results"]) / "result.json"), Tasks()
    if is_wanted(result, inputs["on"], inputs["before"]):
        tasks |= _plan_messages(inputs["addresses"], build_notification(result))
    if inputs["confluence"] and not is_cancelled(result):
        line = render_line(result, time.strftime("%Y-%m-%d", time.gmtime()))
        write = functools.partial(append_to_page, line=line, **inputs["confluence"])
        tasks["confluence_page_id"] = write
    return {"warnings": run_all(tasks, LONGEST_S)}


def send_to_all(addresses: Sequence[str], message: Notification, longest_s: float) -> list[str]:
    """Send to all at the same time, for ``longest_s`` at most. Returns what failed, and why."""
    return run_all(_plan_messages(addresses, message), longest_s)


def _plan_messages(addresses: Sequence[str], message: Notification) -> Tasks:
    return {
        f"notify, address {number}": functools.partial(_send_by_apprise, address, message)
        for number, address in enumerate(addresses, 1)
    }


def run_all(tasks: Tasks, longest_s: float) -> list[str]:
    """Run the tasks at the same time, for ``longest_s`` at most. Returns what failed, and why."""
    # Daemon threads end with the process, even if a server answers one byte a minute.
    ended: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for name, task in tasks.items():
        start_with_signals_blocked(
            threading.Thread(target=_run, args=(ended, name, task), daemon=True)
        )
    failures = dict.fromkeys(tasks, f"no answer within {longest_s:.0f} s")
    deadline = time.monotonic() + longest_s
    for _ in tasks:
        try:
            name, failure = ended.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        failures[name] = failure
    return [f"{name}: {failure}" for name, failure in failures.items() if failure]


def _run(ended: "queue.SimpleQueue[tuple[str, str]]", name: str, task: Callable[[], str]) -> None:
    try:
        ended.put((name, task()))
    except Exception as error:  # not its text, which may quote the address
        ended.put((name, f"sending failed ({type(error).__name__})"))


def describe_unknown_addresses(addresses: Sequence[str]) -> list[str]:
    """A text for each address that apprise does not know."""
    import apprise

    return [
        f"notify, address {number}: {_describe_unknown_address(address)}"
        for number, address in enumerate(addresses, 1)
        if not apprise.Apprise.instantiate(address)
    ]


def _describe_unknown_address(address: str) -> str:
    """Describe an address without repeating any part of it, since it is a secret."""
    import apprise

    scheme = address.partition("://")[0].lower()
    known = [
        name
        for service in apprise.Apprise().details()["schemas"]
        for name in (*(service["protocols"] or ()), *(service["secure_protocols"] or ()))
    ]
    similar = difflib.get_close_matches(scheme, known, 1, 0.75) if scheme not in known else []
    hint = f"; did you mean {similar[0]}://?" if similar else ""
    return f"apprise knows no such address{hint or _SERVICES}"


def _send_by_apprise(address: str, message: Notification) -> str:
    import apprise

    service = apprise.Apprise.instantiate(address)
    if not isinstance(service, apprise.NotifyBase):
        return _describe_unknown_address(address)
    sent = service.notify(
        title=message.title,
        body=message.body,
        notify_type=apprise.NotifyType(message.tone),
        body_format=apprise.NotifyFormat.TEXT,
    )
    return "" if sent else f"{service.service_name} did not take the message"
