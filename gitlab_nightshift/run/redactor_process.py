"""The redactor: the process that holds the secret values.

The others send it what to log and store, each through a pipe. It alone writes the job log and the
artifacts, and never answers. It ignores signals, and ends when all senders have ended.
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

from gitlab_nightshift.records.codec import decode_record
from gitlab_nightshift.records.events import Emit
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
from gitlab_nightshift.system.self_protection import close_to_others
from gitlab_nightshift.wire.protocol import Configuration

MOST_MEMORY = 1 << 30
"""Bytes. A message that would need more is refused, and the run goes on."""


def main(data: Mapping[str, Any]) -> int:
    """Serve until all senders end; ``configuration`` is the descriptor of a pipe with the JSON."""
    close_to_others()
    # It outlives its senders: a signal to the whole job would lose what they still have to send.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        _limit_memory()
        with os.fdopen(data["configuration"], "rb") as file:
            configuration = decode_record(Configuration, file.read())
        serve(configuration)
    except Exception as error:  # not its text, which may quote a secret
        sys.stderr.write(f"nightshift: a defect of the redactor: {type(error).__name__}\n")
        return 70
    return 0


def serve(configuration: Configuration) -> None:
    """Receive from all senders, until the last one has ended."""
    redact, folder = Redactor(configuration.values), Path(configuration.logs)
    logs, log_names = Logs(folder, redact, Reserve(folder.with_name("reserve"))), set[str]()

    def redact_text(text: str) -> str:
        return with_real_name(redact(text), logs, log_names)

    sinks, log = _open_sinks(configuration)
    dispatcher = EventDispatcher(sinks, redact_text)
    records = ResultRecords(Path(configuration.results), redact, redact_text, logs.reserve)
    receivers = {
        sender.descriptor: ChannelReceiver(
            sender, dispatcher, records, ReceivedLogs(logs, log_names)
        )
        for sender in configuration.senders
    }
    _listen(receivers, dispatcher, configuration.ended)
    log.close()
    logs.reserve.release()


def _limit_memory() -> None:
    # Counts private anonymous memory, too, since Linux 4.7 (getrlimit(2)).
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = MOST_MEMORY if most == resource.RLIM_INFINITY else min(MOST_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, most))


def _open_sinks(configuration: Configuration) -> tuple[dict[str, Emit], JobLog]:
    """The sinks by name, and the job log. They get redacted events, so need no redactor."""
    events = Path(configuration.results) / EVENTS
    remove_path(events)
    stream = open(  # noqa: PTH123, SIM115 - a descriptor, for as long as the process lives
        configuration.output, "w", encoding="utf-8", errors="backslashreplace"
    )
    sinks: dict[str, Emit]
    followed = configuration.live is not None
    log = JobLog(
        configuration.sections, configuration.colour, str, stream=stream, programs=followed
    )
    sinks = {"the job log": log, events.name: EventFile(events, str, configuration.run_id)}
    if configuration.live is not None:
        live = Path(f"/proc/self/fd/{configuration.live}/{EVENTS}")
        sinks["the live events"] = EventFile(live, str, configuration.run_id)
    return sinks, log


def _listen(receivers: dict[int, ChannelReceiver], dispatcher: EventDispatcher, ended: int) -> None:
    """Read from the senders, in each round in the order in which they start.

    Once a sender has reported the run's end, wait only for awaited senders: a process that could
    not be killed may hold another pipe open.
    """
    open_receivers, run_ended = dict(receivers), False
    with selectors.DefaultSelector() as selector:
        # A sender may stall in the middle of a message: no read may block the others.
        for descriptor in open_receivers:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        while open_receivers:
            ready = {key.fd for key, _ in selector.select()}
            for descriptor in [each for each in open_receivers if each in ready]:
                if not open_receivers[descriptor].read_available():
                    selector.unregister(descriptor)
                    receiver = open_receivers.pop(descriptor)
                    run_ended = receiver.end() or run_ended
                    with contextlib.suppress(BrokenPipeError):  # the supervisor has died
                        os.write(ended, f"{receiver.name}\n".encode())
            if run_ended and not any(receiver.awaited for receiver in open_receivers.values()):
                dispatcher.end()
    dispatcher.end()
