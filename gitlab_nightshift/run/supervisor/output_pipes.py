"""The redactor and the one-way pipes to it: everything that a run logs or stores goes there."""

import contextlib
import dataclasses
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.job.job_secrets import read_secrets
from gitlab_nightshift.records.events import Note, RunEnded
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.run.supervisor.failure_records import build_killed_error
from gitlab_nightshift.run.supervisor.stop_signals import Signals
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox.credential_files import read_machine_secrets
from gitlab_nightshift.sandbox.process_table import REDACTOR
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.system.raw_logs import move_logs
from gitlab_nightshift.system.signals import start_with_signals_blocked
from gitlab_nightshift.wire.channel import (
    FROM_FINISH,
    FROM_NOTARY,
    FROM_NOTIFY,
    FROM_PLAN,
    FROM_PREPARE,
    FROM_PUBLISH,
    FROM_SUPERVISOR,
    FROM_TASK,
    FROM_WORK,
    OutputChannel,
    RedactorConfig,
    Sender,
)

_BUNDLE = (("bundle/change.patch", "patch"), ("bundle/bundle.json", "bundle"))
_REPORTS = (
    ("report.html", "page"),
    *((name, "text") for name in ("junit.xml", "nightshift.env", "annotations.json")),
)

_UNKNOWN = -1
"""A placeholder for descriptors until the pipes are open."""
RUN_SENDERS = (
    Sender("plan", _UNKNOWN, FROM_PLAN),
    Sender("work", _UNKNOWN, FROM_WORK, _BUNDLE, logs=True),
    Sender("notary", _UNKNOWN, FROM_NOTARY, logs=True),
    Sender("publish", _UNKNOWN, FROM_PUBLISH),
    Sender("work-2", _UNKNOWN, FROM_WORK, _BUNDLE, logs=True),
    Sender("notary-2", _UNKNOWN, FROM_NOTARY, logs=True),
    Sender("publish-2", _UNKNOWN, FROM_PUBLISH),
    Sender("report", _UNKNOWN, (), (("result.json", "result"), *_REPORTS)),
    Sender("supervisor", _UNKNOWN, FROM_SUPERVISOR),
    Sender("notify", _UNKNOWN, FROM_NOTIFY, awaited=True),
)
"""The senders of a run and what each may send, in the order in which they start. After the upkeep
of an open merge request, those that end in ``-2`` do the night's own work."""
_TASK = (*_BUNDLE, ("failed.patch", "patch"))
DELEGATION_SENDERS = (
    Sender("prepare", _UNKNOWN, FROM_PREPARE, (("plan.json", "plan"),), logs=True),
    Sender("work", _UNKNOWN, FROM_TASK, _TASK, logs=True),
    Sender("fallback", _UNKNOWN, FROM_TASK, _TASK, logs=True),
    Sender("notary", _UNKNOWN, FROM_NOTARY, logs=True),
    Sender("finish", _UNKNOWN, FROM_FINISH, (("result.json", "delegation"), *_BUNDLE), logs=True),
)


@dataclass(frozen=True)
class RedactorSetup:
    """The senders, the secret ``values`` to redact, and ``output``, the descriptor of the job log.
    ``live`` is the descriptor of a delegation's folder, for the events as they happen."""

    run_id: str
    values: tuple[str, ...] = field(repr=False)
    senders: tuple[Sender, ...]
    output: int
    sections: bool
    colour: bool
    live: int | None = None


def read_secret_values(env: Mapping[str, str]) -> tuple[str, ...]:
    """The values to redact: the job's secrets, and those of tools on this machine."""
    return (*read_secrets(env).values, *read_machine_secrets(env))


class Pipes:
    """The write ends of the pipes to the redactor, by sender.

    ``ended`` is the read end of a pipe, on which the redactor names each sender once all its
    messages are written. If the redactor ends before it has named all, nothing can be logged or
    stored any more: the run is stopped, and ``broken`` is True from then on.
    """

    def __init__(self, write_ends: dict[str, int], ended: int, signals: Signals) -> None:
        self._write_ends, self._ended, self._signals = write_ends, ended, signals
        self._unfinished = set(write_ends)
        self._progress = threading.Condition()
        self.broken = False
        self._listening = threading.Thread(target=self._listen)
        start_with_signals_blocked(self._listening)

    def take(self, sender: str) -> int:
        """A copy of this sender's write end, to be closed by the caller. Only before ``wait``."""
        return os.dup(self._write_ends[sender])

    def wait(self, sender: str) -> None:
        """Wait until everything that this sender sent is written, or the redactor is dead. The
        sender must have ended."""
        # The redactor reads end-of-file only after the last write end is closed: this one.
        os.close(self._write_ends.pop(sender))
        with self._progress:
            self._progress.wait_for(lambda: self.broken or sender not in self._unfinished)

    def report_end(self, notes: Sequence[Note], result: RunResult) -> None:
        """Report the end of the run; if the redactor is dead, only the warnings."""
        if not self.broken:
            channel = OutputChannel(self.take("supervisor"))
            with contextlib.suppress(NightshiftError):
                for note in notes:
                    channel(note)
                channel(RunEnded(result))
                channel.close()
                self.wait("supervisor")
                return
        print_warnings(notes)

    def close(self) -> None:
        """Close all write ends, and wait until the redactor ends."""
        for end in self._write_ends.values():
            os.close(end)
        self._write_ends.clear()
        self._listening.join()

    def _listen(self) -> None:
        with os.fdopen(self._ended) as file:
            for line in file:
                with self._progress:
                    self._unfinished.discard(line.strip())
                    self._progress.notify_all()
        # End-of-file: the redactor has ended.
        if self._unfinished:
            self._signals.stop(build_killed_error("the redactor"))
            with self._progress:
                self.broken = True
                self._progress.notify_all()


def print_warnings(notes: Iterable[Note]) -> None:
    """Print warnings to stderr. They are texts of this program, so they need no redaction."""
    for note in notes:
        if note.warning:
            sys.stderr.write(f"nightshift: warning: {note.text}\n")


@contextlib.contextmanager
def open_pipes(
    run_folder: RunFolder, own_env: Mapping[str, str], setup: RedactorSetup, signals: Signals
) -> Iterator[Pipes]:
    """Start the redactor, with the environment ``own_env``, and the pipes to it. After the block,
    all messages are written."""
    run_folder.logs.mkdir()
    pairs = {sender.name: os.pipe() for sender in setup.senders}
    ended_read, ended_write = os.pipe()
    read_ends = {name: read_end for name, (read_end, _) in pairs.items()}
    write_ends = {name: write_end for name, (_, write_end) in pairs.items()}
    with contextlib.closing(_start(run_folder, own_env, read_ends, ended_write, setup)) as redactor:
        pipes = Pipes(write_ends, ended_read, signals)
        try:
            yield pipes
        finally:
            pipes.close()
            redactor.wait()
            with contextlib.suppress(OSError):
                move_logs(run_folder.logs, run_folder.results / "logs")


def _start(
    run_folder: RunFolder,
    own_env: Mapping[str, str],
    read_ends: Mapping[str, int],
    ended: int,
    setup: RedactorSetup,
) -> StageProcess:
    """Start the redactor, and send it its configuration."""
    config_read, config_write = os.pipe()
    output = os.dup(setup.output)
    live = None if setup.live is None else os.dup(setup.live)
    live_folders = () if live is None else (str(Path(f"/proc/self/fd/{live}").readlink()),)
    descriptors = [config_read, output, ended, *read_ends.values()]
    descriptors += [] if live is None else [live]
    config = RedactorConfig(
        run_id=setup.run_id,
        values=setup.values,
        results=str(run_folder.results),
        logs=str(run_folder.logs),
        sections=setup.sections,
        colour=setup.colour,
        output=output,
        ended=ended,
        live=live,
        senders=tuple(
            dataclasses.replace(sender, descriptor=read_ends[sender.name])
            for sender in setup.senders
        ),
    )
    try:
        data = {"configuration": config_read}
        places = {"private": str(run_folder.private), "live": live_folders}
        process = StageProcess(REDACTOR, own_env, data, descriptors=descriptors, places=places)
    finally:
        # The redactor has its copies. _listen would never end while ``ended`` is open here.
        for descriptor in descriptors:
            os.close(descriptor)
    # Through a pipe: /proc shows arguments and environment (proc(5)). It breaks if it died.
    with contextlib.suppress(BrokenPipeError), os.fdopen(config_write, "wb") as file:
        file.write(json.dumps(dataclasses.asdict(config)).encode())
    return process
