"""A trusted program that answers one request after another until its block ends."""

import contextlib
import os
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.sandbox.process import start_process

if TYPE_CHECKING:
    from gitlab_nightshift.sandbox.process import Process

LONGEST_REQUEST = select.PIPE_BUF
"""Bytes. A pipe takes so many at once (pipe(7)), so sending never waits for a program that itself
waits until its answer is read."""
_CHUNK = 1024 * 1024


class Dialogue:
    """The program's two pipes. Every method raises EOFError once it has ended, or if it is silent
    for ``timeout_s`` seconds; read each answer to its end before the next request."""

    def __init__(self, process: "Process", timeout_s: float) -> None:
        assert process.stdin and process.stdout
        self._stdin, self._stdout = process.stdin.fileno(), process.stdout.fileno()
        self._timeout_ms, self._read = int(timeout_s * 1000), bytearray()

    def send(self, request: bytes) -> None:
        """Send at most ``LONGEST_REQUEST`` bytes."""
        try:
            os.write(self._stdin, request)
        except BrokenPipeError:
            raise EOFError from None

    def read_line(self) -> bytes:
        """The next line, without its end."""
        while (end := self._read.find(b"\n")) < 0:
            self._wait()
        return self._take(end + 1)[:-1]

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        while len(self._read) < size:
            self._wait()
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytes(memoryview(self._read)[:size])
        del self._read[:size]
        return taken

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if not poll.poll(self._timeout_ms) or not (data := os.read(self._stdout, _CHUNK)):
            raise EOFError
        self._read += data


@contextlib.contextmanager
def open_dialogue(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> Iterator[Dialogue]:
    """Start a program for the block. Raises OSError if it cannot be started."""

    def start() -> "Process":
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )

    with start_process(start) as process:
        yield Dialogue(process, timeout_s)
