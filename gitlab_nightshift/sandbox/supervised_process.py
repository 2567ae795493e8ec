"""Runs a stage as a separate process, with a pipe each way.

The process inherits nothing: it gets an explicit environment and descriptors, and on stdin the
length of its task, then the task as JSON, which may contain secrets. Its stdin stays open as long
as its parent lives: end of file means that nobody waits for it any more.
"""

import contextlib
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.records.codec import encode_record
from gitlab_nightshift.system.processes import end_orphans, list_own_children
from gitlab_nightshift.system.signals import call_after, start_with_signals_blocked

if TYPE_CHECKING:
    from gitlab_nightshift.sandbox.process_places import Places
    from gitlab_nightshift.sandbox.process_table import ProcessRow

LARGEST_ANSWER = 16 * 1024 * 1024
"""Bytes."""
LENGTH_BYTES = 8
"""The size of the number in front of a task."""


class StageProcess:
    """A started stage; it imports its modules while it waits for its task."""

    def __init__(
        self,
        row: "ProcessRow",
        env: Mapping[str, str],
        data: Mapping[str, Any] | None = None,
        *,
        descriptors: Collection[int] = (),
        quiet: bool = False,
        prefix: Sequence[str] = (),
        places: "Places | None" = None,
    ) -> None:
        """Start it from its row (``row``, ``places`` and ``prefix``: ``stage_process.py``).
        ``quiet``: its stderr is dropped."""
        from subprocess import DEVNULL, PIPE  # here: the stage itself imports this module too

        from gitlab_nightshift.sandbox import stage_process

        streams = (PIPE, PIPE, DEVNULL if quiet else None)
        self._process = stage_process.start_stage(
            row, data or {}, env, descriptors, streams, prefix, places or {}
        )
        self._row, self._other_children = row, set[int]()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def send_task(self, config: Mapping[str, Any]) -> None:
        """Send the task, once. Ignores a dead process: its end will show that."""
        assert self._process.stdin
        self._other_children = list_own_children()
        with contextlib.suppress(BrokenPipeError):
            task = encode_record(config)
            self._process.stdin.write(len(task).to_bytes(LENGTH_BYTES, "big") + task)
            self._process.stdin.flush()

    def read_answer(self) -> dict[str, Any]:
        """Wait for the end of the process and return its answer, {} if that is invalid. Kills the
        process after ``wall_s`` of its row, and its descendants after its end."""
        with contextlib.ExitStack() as stack:
            if self._row.wall_s:
                stack.enter_context(call_after(self._row.wall_s, self.kill))
            output = self._read_output()
        if len(output) > LARGEST_ANSWER:
            self._process.kill()
        self.wait()
        if self._row.children or self._row.agent_bytes:
            end_orphans(lambda: list_own_children() - self._other_children)
        with contextlib.suppress(ValueError, RecursionError):
            answer = json.loads(output) if len(output) <= LARGEST_ANSWER else {}
            return answer if isinstance(answer, dict) else {}
        return {}

    def _read_output(self) -> bytes:
        """The output until the end of the process, or until it is longer than
        ``LARGEST_ANSWER``."""
        assert self._process.stdout
        stdout, output = self._process.stdout.fileno(), bytearray()
        # Not until the end of the output: descendants may hold the pipe open.
        pidfd = os.pidfd_open(self.pid)  # readable once the process has ended (pidfd_open(2))
        try:
            ready = select.poll()
            for fd in (stdout, pidfd):
                ready.register(fd, select.POLLIN)
            while len(output) <= LARGEST_ANSWER:
                if stdout not in dict(ready.poll()):
                    break  # the process has ended, and the pipe is empty
                data = os.read(stdout, 1 << 16)
                if not data:
                    break
                output += data
        finally:
            os.close(pidfd)
        return bytes(output)

    def wait(self) -> int:
        """The process's exit status, negative for a signal that ended it."""
        return self._process.wait()

    def signal(self, number: int) -> None:
        """Have the process send itself a signal, once it has its task."""
        # Over the pipe: in namespaces the process has another pid; the one here is bwrap's.
        assert self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            os.write(self._process.stdin.fileno(), bytes([number]))

    def kill(self) -> None:
        """Kill the process, and with it its namespaces."""
        self._process.kill()

    def close(self) -> None:
        """Close the pipes, and kill the process if it still runs."""
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with contextlib.suppress(OSError):
                pipe.close()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


# --- in the process -------------------------------------------------------------------------------


def serve_stage(
    step: Callable[[dict[str, Any]], Mapping[str, Any]], *, forwarding: bool = True
) -> int:
    """Read the task, run ``step`` on it, and write the answer; prints go to stderr. A step that
    needs a single thread at first sets ``forwarding`` to False, and calls ``forward_signals``
    itself."""
    # A library that prints would spoil the answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    config = read_task()
    if forwarding:
        forward_signals()
    answer = encode_record(step(config))
    with contextlib.suppress(BrokenPipeError), answers:
        answers.write(answer)
    return 0


def read_task() -> dict[str, Any]:
    """Read the task from the supervisor."""
    # And no byte more: signals may follow (forward_signals).
    size = int.from_bytes(_read_exactly(LENGTH_BYTES), "big")
    config: dict[str, Any] = json.loads(_read_exactly(size))
    return config


def _read_exactly(size: int) -> bytearray:
    """Read ``size`` bytes of stdin; exits if stdin ends before that."""
    data = bytearray()
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            sys.exit(128 + signal.SIGTERM)
        data += chunk
    return data


def forward_signals() -> None:
    """From here on, each byte from the supervisor is a signal for this process, and end of file
    (the supervisor is gone) is SIGTERM."""
    start_with_signals_blocked(threading.Thread(target=_forward_signals, daemon=True))


def _forward_signals() -> None:
    # Unbuffered: Python aborts if a daemon thread has the lock of sys.stdin.buffer at exit
    # (CPython's _enter_buffered_busy).
    while signals := os.read(0, 1 << 16):
        for number in signals:
            os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGTERM)
