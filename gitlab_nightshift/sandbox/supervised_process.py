"""A part of a run as a process of its own: started by exec, with a pipe each way.

It gets nothing that is not given to it: an environment of named variables, descriptors by number,
and JSON behind its length, which may hold secrets, on its stdin. That stays open as long as the
process that started it lives: its end means that nobody waits any more.
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

from gitlab_nightshift.system.descendants import end_orphans, list_own_children
from gitlab_nightshift.system.signals import call_late, start_deaf

if TYPE_CHECKING:
    from gitlab_nightshift.sandbox.process_places import Places
    from gitlab_nightshift.sandbox.process_table import ProcessRow

LARGEST_ANSWER = 16 * 1024 * 1024
"""Bytes."""
LENGTH_BYTES = 8


class StageProcess:
    """A stage that was started; it loads what it needs until it gets its task."""

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
        """Start it from its row, with ``places`` in it, behind ``prefix`` (``stage_process.py``);
        ``quiet``: what it prints on stderr is dropped."""
        from subprocess import DEVNULL, PIPE  # not for what is started: see below

        from gitlab_nightshift.sandbox import stage_process

        streams = (PIPE, PIPE, DEVNULL if quiet else None)
        self._process = stage_process.start_stage(
            row, data or {}, env, descriptors, streams, prefix, places or {}
        )
        self._row, self._others = row, set[int]()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, config: Mapping[str, Any]) -> None:
        """Say what to do, once. A dead process does not get it, which its end will show."""
        assert self._process.stdin
        self._others = list_own_children()
        with contextlib.suppress(BrokenPipeError):
            said = json.dumps(config).encode()
            self._process.stdin.write(len(said).to_bytes(LENGTH_BYTES, "big") + said)
            self._process.stdin.flush()

    def read_answer(self) -> dict[str, Any]:
        """Its answer at its end, {} where that is of no use. Waits for it, as long as its row says.

        Its own end counts: what it has left behind may hold its pipes for as long as it likes, so
        that is ended.
        """
        with (
            call_late(self._row.wall_s, self.kill) if self._row.wall_s else contextlib.nullcontext()
        ):
            said = self._read_output()
        if len(said) > LARGEST_ANSWER:
            self._process.kill()
        self.wait()
        if self._row.children or self._row.agent_bytes:
            end_orphans(lambda: list_own_children() - self._others)
        with contextlib.suppress(ValueError, RecursionError):
            made = json.loads(said) if len(said) <= LARGEST_ANSWER else {}
            return made if isinstance(made, dict) else {}
        return {}

    def _read_output(self) -> bytes:
        """All that comes until it ends, or more than it may say."""
        assert self._process.stdout
        out, said = self._process.stdout.fileno(), bytearray()
        end = os.pidfd_open(self.pid)
        try:
            ready = select.poll()
            for each in (out, end):
                ready.register(each, select.POLLIN)
            while len(said) <= LARGEST_ANSWER:
                if out not in dict(ready.poll()):
                    break  # it has ended, and nothing is left
                if not (part := os.read(out, 1 << 16)):
                    break
                said += part
        finally:
            os.close(end)
        return bytes(said)

    def wait(self) -> int:
        """Its exit status, negative for a signal that ended it."""
        return self._process.wait()

    def signal(self, number: int) -> None:
        """Have it send itself a signal, once it has its task: by its pipe, because its pid is not
        known here where it is in namespaces of its own."""
        assert self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            os.write(self._process.stdin.fileno(), bytes([number]))

    def kill(self) -> None:
        """End it by force, with the namespaces that it is in."""
        self._process.kill()

    def close(self) -> None:
        """End it, where it has not ended: by the end of its input, then by force."""
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
    """Read the task, do it, and answer. What is printed meanwhile goes to stderr. A step that
    needs to be the only thread for a while is not ``forwarding`` at once, and calls
    ``forward_signals`` itself."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    config = hear()
    if forwarding:
        forward_signals()
    answer = json.dumps(step(config)).encode()
    with contextlib.suppress(BrokenPipeError), answers:
        answers.write(answer)
    return 0


def hear() -> dict[str, Any]:
    """The task from the supervisor. Nothing after it is read: that may be signals already."""
    config: dict[str, Any] = json.loads(_read(int.from_bytes(_read(LENGTH_BYTES), "big")))
    return config


def _read(number: int) -> bytearray:
    """This many bytes of stdin; exits where it ends before."""
    said = bytearray()
    while len(said) < number:
        part = os.read(0, number - len(said))
        if not part:
            sys.exit(128 + signal.SIGTERM)
        said += part
    return said


def forward_signals() -> None:
    """From here on the end of the supervisor is a SIGTERM for this process, and each byte that it
    sends a signal of that number."""
    start_deaf(threading.Thread(target=_pass_on, daemon=True))


def _pass_on() -> None:
    """Nothing that Python buffers: this thread may read while the others are gone already."""
    while signals := os.read(0, 1 << 16):
        for number in signals:
            os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGTERM)
