"""The redactor: a process of its own, which holds the values of secrets.

Others send it what is to be logged and kept, through a pipe each; it alone writes the job log and
the artifacts, and it never answers. It ends when all senders have ended, and by no signal before.
"""

import contextlib
import os
import resource
import selectors
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.records.events import Emit
from gitlab_nightshift.records.strict_reading import decode_record
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.run.channel_receiver import ChannelReceiver
from gitlab_nightshift.run.event_output import EventDispatcher
from gitlab_nightshift.run.kept_records import ResultRecords
from gitlab_nightshift.run.received_logs import ReceivedLogs, with_real_name
from gitlab_nightshift.stages.report.event_file import EVENTS, EventFile
from gitlab_nightshift.stages.report.job_log import JobLog
from gitlab_nightshift.system.disk_reserve import Reserve
from gitlab_nightshift.system.openat import remove_path
from gitlab_nightshift.system.raw_logs import Logs
from gitlab_nightshift.system.secrecy import close_to_others
from gitlab_nightshift.wire.redactor_config import Configuration

MOST_MEMORY = 1 << 30
"""Bytes: a sender's message that takes more is refused, and the night goes on."""


def main(data: Mapping[str, Any]) -> int:
    """Serve to the end; ``configuration`` is the descriptor of a pipe that holds one as JSON."""
    close_to_others()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        _limit_memory()
        with os.fdopen(data["configuration"], "rb") as file:
            configuration = decode_record(Configuration, file.read())
        serve(configuration)
    except Exception as error:  # its text may quote what is secret
        sys.stderr.write(f"nightshift: a defect of the redactor: {type(error).__name__}\n")
        return 70
    return 0


def serve(configuration: Configuration) -> None:
    """Take what all senders send, until the last one has ended."""
    redact, folder = Redactor(configuration.values), Path(configuration.logs)
    logs, taken = Logs(folder, redact, Reserve(folder.with_name("reserve"))), set[str]()

    def redact_text(text: str) -> str:
        return with_real_name(redact(text), logs, taken)

    sinks, log = _open_sinks(configuration)
    telling = EventDispatcher(sinks, redact_text)
    records = ResultRecords(Path(configuration.results), redact, redact_text, logs.reserve)
    receivers = {
        sender.descriptor: ChannelReceiver(sender, telling, records, ReceivedLogs(logs, taken))
        for sender in configuration.senders
    }
    _listen(receivers, telling, configuration.ended)
    log.close()
    logs.reserve.release()


def _limit_memory() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = MOST_MEMORY if most == resource.RLIM_INFINITY else min(MOST_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, most))


def _open_sinks(configuration: Configuration) -> tuple[dict[str, Emit], JobLog]:
    """The sinks, and that of the job log; they redact nothing: all that they get is redacted."""
    events = Path(configuration.results) / EVENTS
    remove_path(events)
    stream = open(  # noqa: PTH123, SIM115 - a descriptor, for as long as the process lives
        configuration.output, "w", encoding="utf-8", errors="backslashreplace"
    )
    sinks: dict[str, Emit]
    log = JobLog(configuration.sections, configuration.colour, str, stream=stream)
    sinks = {"the job log": log, events.name: EventFile(events, str, configuration.run_id)}
    if configuration.live is not None:
        live = Path(f"/proc/self/fd/{configuration.live}/{EVENTS}")
        sinks["the live events"] = EventFile(live, str, configuration.run_id)
    return sinks, log


def _listen(receivers: dict[int, ChannelReceiver], telling: EventDispatcher, ended: int) -> None:
    """Read from the senders, in their order in each round.

    The run's end waits for no other pipe than those that are awaited: what nobody could end may
    hold one open.
    """
    left, over = dict(receivers), False
    with selectors.DefaultSelector() as selector:
        for descriptor in left:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        while left:
            ready = {key.fd for key, _ in selector.select()}
            for descriptor in [each for each in left if each in ready]:
                if not left[descriptor].turn():
                    selector.unregister(descriptor)
                    receiver = left.pop(descriptor)
                    over = receiver.end() or over
                    with contextlib.suppress(BrokenPipeError):  # nobody waits for it
                        os.write(ended, f"{receiver.name}\n".encode())
            if over and not any(receiver.awaited for receiver in left.values()):
                telling.end()
    telling.end()
