"""The process that tells people how a run ended. It gets the addresses, which are secrets, and the
result; it has no token, and alone loads apprise."""

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gitlab_nightshift.records import RunResult, read_own
from gitlab_nightshift.report.outcome_message import Notification, build_notification, is_wanted
from gitlab_nightshift.system.signals import start_deaf
from gitlab_nightshift.system.supervised_process import serve_stage

LONGEST_S = 30.0
"""For all addresses together; each is told at the same time as the others."""


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``system/supervised_process.py``)."""
    return serve_stage(_notify)


def _notify(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer: ``warnings``, one for each address that was not told. They name no address, but
    its place in the list."""
    result = read_own(RunResult, Path(inputs["results"]) / "result.json")
    if not is_wanted(result, inputs["on"], inputs["before"]):
        return {"warnings": []}
    logging.disable()  # apprise tells addresses there
    return {"warnings": send_to_all(inputs["addresses"], build_notification(result), LONGEST_S)}


def send_to_all(addresses: Sequence[str], message: Notification, longest_s: float) -> list[str]:
    """Send to all at once, and wait so many seconds at most; why some could not be told.

    A server that answers a byte a minute keeps its thread, which ends with this process.
    """
    ended: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    for number, address in enumerate(addresses):
        start_deaf(
            threading.Thread(target=_send, args=(ended, number, address, message), daemon=True)
        )
    problems = dict.fromkeys(range(len(addresses)), f"no answer within {longest_s:.0f} s")
    until = time.monotonic() + longest_s
    for _ in addresses:
        try:
            number, problem = ended.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        problems[number] = problem
    return [f"notify, address {at + 1}: {why}" for at, why in problems.items() if why]


def _send(
    ended: "queue.SimpleQueue[tuple[int, str]]", number: int, address: str, message: Notification
) -> None:
    """Send to one, and say why that failed, "" where it did not. The text of an exception may quote
    the address."""
    try:
        ended.put((number, _send_by_apprise(address, message)))
    except Exception as error:
        ended.put((number, f"it could not be told ({type(error).__name__})"))


def _send_by_apprise(address: str, message: Notification) -> str:
    import apprise

    service = apprise.Apprise.instantiate(address)
    if not isinstance(service, apprise.NotifyBase):
        return "it is no address that apprise knows; https://appriseit.com lists the services"
    kind = apprise.NotifyType(message.tone)
    text = apprise.NotifyFormat.TEXT
    sent = service.notify(
        title=message.title, body=message.body, notify_type=kind, body_format=text
    )
    return "" if sent else f"{service.service_name} did not take the message"
