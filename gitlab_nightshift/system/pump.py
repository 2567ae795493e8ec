"""Moves bytes to a process's stdin and from its outputs to sinks, a bounded amount at a time."""

import contextlib
import fcntl
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitlab_nightshift.system.raw_logs import Sink

DRAIN_S = 1.0
"""Seconds to read what is left in the pipes: a process that has one open could go on writing."""
LONGEST_LINE = 8 * 1024 * 1024
"""Bytes."""
STDIN_CHUNK = 64 * 1024
PIPE_BYTES = 1024 * 1024
"""Size of a pipe: the default of /proc/sys/fs/pipe-max-size (pipe(7)). An agent's CLI does not wait
for a slow reader: output that does not fit when it exits is lost."""


class Pump:
    """The pipes of a process: it gets the bytes ``stdin``, its outputs go raw to ``out`` and
    ``err``.

    ``on_line`` gets the first ``LONGEST_LINE`` bytes of each line of stdout; ``stopped`` is True
    once ``on_line`` has returned True. ``printed`` is the number of bytes of both outputs.
    """

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        stdin: bytes,
        out: "Sink",
        err: "Sink",
        on_line: Callable[[bytes], bool],
    ) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.printed, self.stopped = 0, False
        self._stdin, self._stdout = process.stdin, process.stdout.fileno()
        self._pending, self._on_line, self._line = memoryview(stdin), on_line, bytearray()
        self._sinks = {self._stdout: out, process.stderr.fileno(): err}
        self._selector = selectors.DefaultSelector()
        for fd in (*self._sinks, self._stdin.fileno()):
            os.set_blocking(fd, False)  # select may promise more than a read then finds (select(2))
        for fd in self._sinks:
            self._selector.register(fd, selectors.EVENT_READ)
            with contextlib.suppress(OSError):  # EPERM beyond the user's limit for pipes (pipe(7))
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._selector.register(self._stdin.fileno(), selectors.EVENT_WRITE)

    def move_bytes(self, wait_s: float) -> bool:
        """Wait at most ``wait_s`` seconds until a pipe is ready, then move bytes; True if the
        process printed something."""
        has_printed = False
        for key, _ in self._selector.select(wait_s):
            if key.fd in self._sinks:
                has_printed = self._read(key.fd) or has_printed
            else:
                self._write()
        return has_printed

    def outputs_open(self) -> bool:
        """False once the process has closed both outputs."""
        return any(fd in self._selector.get_map() for fd in self._sinks)

    def drain(self) -> None:
        """Read what is left in the pipes after the end of the process, for ``DRAIN_S`` seconds at
        most. Call it last."""
        deadline = time.monotonic() + DRAIN_S
        while self.outputs_open() and time.monotonic() < deadline and self.move_bytes(0.0):
            pass
        if self._line:
            self._on_line(bytes(self._line))
        self._selector.close()

    def _write(self) -> None:
        fd = self._stdin.fileno()
        try:
            if self._pending:
                self._pending = self._pending[os.write(fd, self._pending[:STDIN_CHUNK]) :]
            if self._pending:
                return
        except BlockingIOError:
            return
        except BrokenPipeError:  # the process reads no more: close our end as if all were written
            pass
        self._selector.unregister(fd)
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, PIPE_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(fd)
            return False
        self._sinks[fd].write(data)
        self.printed += len(data)
        if fd == self._stdout:
            self._handle_lines(data)
        return True

    def _handle_lines(self, data: bytes) -> None:
        *line_ends, unfinished = data.split(b"\n")
        for line_end in line_ends:
            self._append_to_line(line_end)
            self.stopped = self._on_line(bytes(self._line)) or self.stopped
            self._line.clear()
        self._append_to_line(unfinished)

    def _append_to_line(self, part: bytes) -> None:
        self._line += part[: LONGEST_LINE - len(self._line)]
