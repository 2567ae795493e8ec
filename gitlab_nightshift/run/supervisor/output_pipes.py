"""The redactor and the pipes to it: all that a run logs and keeps goes there, one way."""

import contextlib
import dataclasses
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.job.job_secrets import read_secrets
from gitlab_nightshift.records.events import Note, RunEnded
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox.credential_files import read_machine_secrets
from gitlab_nightshift.sandbox.process_table import REDACTOR
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.system.raw_logs import move_logs
from gitlab_nightshift.system.signals import start_with_signals_blocked
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.wire.event_wire import (
    FROM_FINISH,
    FROM_NOTARY,
    FROM_NOTIFY,
    FROM_PLAN,
    FROM_PREPARE,
    FROM_PUBLISH,
    FROM_SUPERVISOR,
    FROM_TASK,
    FROM_WORK,
)
from gitlab_nightshift.wire.redactor_config import Configuration, Sender

_BUNDLE = (("bundle/change.patch", "patch"), ("bundle/bundle.json", "bundle"))
_REPORTS = (
    ("report.html", "page"),
    *((name, "text") for name in ("junit.xml", "nightshift.env", "annotations.json")),
)


_UNKNOWN = -1
OF_RUN = (
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
"""The senders of a run, with what each may send, in the order in which they begin. New work is
the second one where an open merge request is looked after before."""
_TASK = (*_BUNDLE, ("failed.patch", "patch"))
OF_DELEGATION = (
    Sender("prepare", _UNKNOWN, FROM_PREPARE, (("plan.json", "plan"),), logs=True),
    Sender("work", _UNKNOWN, FROM_TASK, _TASK, logs=True),
    Sender("fallback", _UNKNOWN, FROM_TASK, _TASK, logs=True),
    Sender("notary", _UNKNOWN, FROM_NOTARY, logs=True),
    Sender("finish", _UNKNOWN, FROM_FINISH, (("result.json", "delegation"), *_BUNDLE), logs=True),
)


@dataclass(frozen=True)
class RedactorSetup:
    """Who may send what, which ``values`` are removed, and ``output``, the log's descriptor;
    ``live`` is that of a folder for events as they happen."""

    run_id: str
    values: tuple[str, ...] = field(repr=False)
    senders: tuple[Sender, ...]
    output: int
    sections: bool
    colour: bool
    live: int | None = None


def read_secret_values(env: Mapping[str, str]) -> tuple[str, ...]:
    """The values that no text may hold: the job's secrets, and those of tools on this machine."""
    return (*read_secrets(env).values, *read_machine_secrets(env))


class Pipes:
    """The ends of the pipes to the redactor, one for each sender, and what it says of them.

    ``on_death`` is called, in a thread, where the redactor ends before all senders have.
    """

    def __init__(self, ends: dict[str, int], ended: int, on_death: Callable[[], object]) -> None:
        self._ends, self._ended, self._on_death = ends, ended, on_death
        self._left = set(ends)
        self._said = threading.Condition()
        self.gone = False
        self._listening = threading.Thread(target=self._listen)
        start_with_signals_blocked(self._listening)

    def take(self, sender: str) -> int:
        """This sender's end; the taker closes it. It can be taken again until ``wait``."""
        return os.dup(self._ends[sender])

    def wait(self, sender: str) -> None:
        """Wait until all that this sender sent is written, or the redactor is dead. The sender must
        have ended."""
        os.close(self._ends.pop(sender))
        with self._said:
            self._said.wait_for(lambda: self.gone or sender not in self._left)

    def tell_end(self, notes: Sequence[Note], result: RunResult) -> None:
        """Say how the run has ended; where the redactor is dead, only what went wrong."""
        if not self.gone:
            channel = OutputChannel(self.take("supervisor"))
            with contextlib.suppress(NightshiftError):
                for note in notes:
                    channel(note)
                channel(RunEnded(result))
                channel.close()
                self.wait("supervisor")
                return
        tell_warnings(notes)

    def close(self) -> None:
        """Close what nobody has taken, and wait for the redactor: it ends when all senders have."""
        for end in self._ends.values():
            os.close(end)
        self._ends.clear()
        self._listening.join()

    def _listen(self) -> None:
        with os.fdopen(self._ended) as file:
            for line in file:
                with self._said:
                    self._left.discard(line.strip())
                    self._said.notify_all()
        if self._left:
            self._on_death()
            with self._said:
                self.gone = True
                self._said.notify_all()


def tell_warnings(notes: Iterable[Note]) -> None:
    """Say them on stderr, where nobody redacts: they are this program's own words."""
    for note in notes:
        if note.warning:
            sys.stderr.write(f"nightshift: warning: {note.text}\n")


@contextlib.contextmanager
def open_pipes(
    there: RunFolder,
    own: Mapping[str, str],
    way: RedactorSetup,
    on_death: Callable[[], object],
) -> Iterator[Pipes]:
    """The redactor, and pipes to it. All that was sent is written when the block has been left.

    ``own`` is the environment of the process; for ``on_death`` see Pipes.
    """
    there.logs.mkdir()
    pairs = {sender.name: os.pipe() for sender in way.senders}
    said, says = os.pipe()
    reads = {name: reading for name, (reading, _) in pairs.items()}
    with contextlib.closing(_start(there, own, reads, says, way)) as redactor:
        pipes = Pipes({name: writing for name, (_, writing) in pairs.items()}, said, on_death)
        try:
            yield pipes
        finally:
            pipes.close()
            redactor.wait()
            with contextlib.suppress(OSError):
                move_logs(there.logs, there.results / "logs")


def _start(
    there: RunFolder,
    own: Mapping[str, str],
    pipes: Mapping[str, int],
    ended: int,
    way: RedactorSetup,
) -> StageProcess:
    """Start the redactor, and send it its configuration."""
    output, (reading, writing) = os.dup(way.output), os.pipe()
    live = None if way.live is None else os.dup(way.live)
    folder = () if live is None else (str(Path(f"/proc/self/fd/{live}").readlink()),)
    configuration = Configuration(
        run_id=way.run_id,
        values=way.values,
        results=str(there.results),
        logs=str(there.logs),
        sections=way.sections,
        colour=way.colour,
        output=output,
        ended=ended,
        live=live,
        senders=tuple(
            dataclasses.replace(sender, descriptor=pipes[sender.name]) for sender in way.senders
        ),
    )
    given = (reading, output, ended, *pipes.values(), *(() if live is None else (live,)))
    try:
        data, places = {"configuration": reading}, {"private": str(there.private), "live": folder}
        started = StageProcess(REDACTOR, own, data, descriptors=given, places=places)
    finally:
        for each in given:
            os.close(each)
    inputs = json.dumps(dataclasses.asdict(configuration)).encode()
    with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as file:  # it is dead
        file.write(inputs)
    return started
