"""The redactor as a process of its own, with pipes to it: what tests of the output share."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.records.events import format_event_name
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.wire.channel import FROM_WORK, RedactorConfig, Sender
from tests.support.samples import EVENTS

SECRET = "hunter2-is-the-secret-of-this-job"
PACKAGE = Path(__file__).parents[2]
START = f"""\
import sys
sys.path.append({str(PACKAGE)!r})
exec(sys.argv[2])
from gitlab_nightshift.run.redactor_process import main
sys.exit(main({{"configuration": int(sys.argv[1])}}))
"""
BUNDLE, PATCH = "bundle/bundle.json", "bundle/change.patch"
WORK = Sender("work", -1, FROM_WORK, ((BUNDLE, "bundle"), (PATCH, "patch")), logs=True)
SUPERVISOR = Sender(
    "supervisor", -1, tuple(map(format_event_name, EVENTS)), (("result.json", "result"),)
)


@dataclass
class Redacting:
    """A redactor at work. ``pipes`` are the senders' ends by their names."""

    process: "subprocess.Popen[bytes]"
    results: Path
    logs: Path
    log_file: Path
    pipes: dict[str, int]
    status: int | None = field(default=None)

    def close(self, *names: str) -> None:
        """End some senders."""
        for name in names:
            with suppress(OSError):  # a channel has closed its own
                os.close(self.pipes.pop(name))

    def ended(self) -> str:
        """End all senders and wait; the job log."""
        self.close(*self.pipes)
        self.status = self.process.wait(120)
        return self.log_file.read_bytes().decode()

    def events(self) -> list[dict[str, object]]:
        """What ``events.jsonl`` holds."""
        file = self.results / "events.jsonl"
        lines = file.read_bytes().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def texts(self) -> list[object]:
        """The texts of the notes there."""
        return [event["text"] for event in self.events() if event["event"] == "note"]


@contextmanager
def redacting(
    folder: Path,
    *senders: Sender,
    values: tuple[str, ...] = (SECRET,),
    sections: bool = False,
    before: str = "",
) -> Iterator[Redacting]:
    """A redactor for these senders, whose descriptors are made here. ``before`` is Python that it
    runs first, such as smaller bounds."""
    results, logs = folder / "results", folder / "logs"
    for each in (results, logs):
        each.mkdir(exist_ok=True)
    pipes = {sender.name: os.pipe() for sender in senders}
    ends = tuple(_with(sender, pipes[sender.name][0]) for sender in senders)
    log_file, ended_file = folder / "job.log", folder / "ended"
    ended = os.open(ended_file, os.O_WRONLY | os.O_CREAT)
    with log_file.open("wb") as output:
        made = RedactorConfig(
            *("7", values, str(results), str(logs), sections, False),
            *(output.fileno(), ended, None, ends),
        )
        reads = [read for read, _ in pipes.values()]
        process = _start(made, [*reads, output.fileno(), ended], before)
    for read in (*reads, ended):
        os.close(read)
    writes = {name: write for name, (_, write) in pipes.items()}
    running = Redacting(process, results, logs, log_file, writes)
    try:
        yield running
    finally:
        running.close(*running.pipes)
        process.kill()
        process.wait()


def _with(sender: Sender, descriptor: int) -> Sender:
    return Sender(sender.name, descriptor, sender.events, sender.records, sender.logs)


def _start(made: RedactorConfig, inherited: list[int], before: str) -> "subprocess.Popen[bytes]":
    read, write = os.pipe()
    argv = [sys.executable, "-I", "-S", "-c", START, str(read), before]
    env: Mapping[str, str] = {"PATH": "/usr/bin:/bin"}
    try:
        process = subprocess.Popen(argv, env=env, pass_fds=[*inherited, read])
        with os.fdopen(write, "wb") as file:
            file.write(to_json(made).encode())
    finally:
        os.close(read)
    return process
