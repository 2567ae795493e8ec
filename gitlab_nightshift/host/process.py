"""The one place that starts processes: deadline, bounded output, and nothing left behind.

A program that is not there and one that fails have the same shape: an exit status and a text.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.host.descendants import end_orphans, own_children, subreaper
from gitlab_nightshift.host.sandbox.launch import Confined, Launch, end_all, launching
from gitlab_nightshift.host.signals import shield

NOT_FOUND = 127
GRACE_S = 1.0
DRAIN_S = 1.0
LONGEST_LINE = 8 * 1024 * 1024
CHUNK = 64 * 1024
TICK_S = 0.2
CLOSED_TICK_S = 0.01
"""Seconds between two looks at a program; the second once it has closed its outputs."""

_running: set[int] = set()
_starting = threading.Lock()
"""Held while a process starts: until its pid is in ``_running`` it looks like an orphan."""


@dataclass(frozen=True)
class Captured:
    """A short program's end: its exit status and all that it printed."""

    exit_status: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        """True for exit status 0."""
        return self.exit_status == 0


class End(StrEnum):
    """Why a streamed program ended."""

    EXITED = "exited"
    STOPPED = "stopped"
    IDLE = "idle"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"


@dataclass(frozen=True)
class Ended:
    """A streamed program's end. A negative exit status is the signal that ended it.

    ``refused`` is what the sandbox did not let through.
    """

    end: End
    exit_status: int
    duration_s: float
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """When a program is ended: seconds in all, seconds without output, bytes printed."""

    timeout_s: float | None = None
    idle_s: float | None = None
    output_bytes: int | None = None


def capture(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float = 300.0,
) -> Captured:
    """Run a short, trusted program to its end and return all that it printed."""
    with contextlib.ExitStack() as stack:
        try:
            launch = Launch(list(argv), dict(env), cwd, confined=False)
            process = stack.enter_context(started(launch.start))
        except OSError as error:
            return Captured(NOT_FOUND, b"", f"{argv[0]}: {error.strerror}".encode())
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return Captured(-signal.SIGKILL, b"", f"no end within {timeout_s:.0f} s".encode())
        return Captured(process.returncode, stdout, stderr)


def stream(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes,
    stdout: Path,
    stderr: Path,
    limits: Limits,
    on_line: Callable[[bytes], bool],
    on_tick: Callable[[], bool] = lambda: False,
    confined: Confined | None = None,
) -> Ended:
    """Run a program, its output raw in two files, each line of stdout handed to ``on_line``.

    ``on_line`` and ``on_tick`` (called several times a second) end the program by returning True.
    It runs inside the boundary of ``confined``. When this returns, no descendant of the program is
    left. Raises OSError where the program cannot be started, :class:`NightshiftError`
    (``E_POLICY_DENY``) where one cannot be ended or the boundary could not be set up.
    """
    subreaper()
    orphans = _orphans_since(own_children())
    began = time.monotonic()
    with (
        stdout.open("wb") as out,
        stderr.open("wb") as err,
        _launch(argv, cwd, env, confined) as launch,
    ):
        try:
            with started(launch.start) as process:
                pump = _Pump(process, stdin, out, err, on_line)
                end = pump.run(limits, on_tick)
                _end(process)
                end_orphans(orphans)
                pump.drain()
        finally:
            all_gone = end_orphans(orphans) and (confined is None or end_all(confined.sandbox))
        told = launch.told()
    if not all_gone:
        text = f"{argv[0]} left processes behind that cannot be ended"
        raise NightshiftError(Code.POLICY_DENY, text)
    if told.failed or not told.ready:
        text = f"the sandbox could not be set up: {told.failed or 'it said nothing'}"
        raise NightshiftError(Code.POLICY_DENY, text)
    return Ended(end, process.returncode, time.monotonic() - began, told.refused)


def _launch(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], confined: Confined | None
) -> contextlib.AbstractContextManager[Launch]:
    if confined:
        return launching(confined.sandbox, argv, env, confined.confinement)
    return contextlib.nullcontext(Launch(list(argv), dict(env), cwd, confined=False))


def _orphans_since(before: set[int]) -> Callable[[], set[int]]:
    """Finds our children that were not there before and that no block of ``started`` holds."""

    def find() -> set[int]:
        with _starting:
            return own_children() - before - _running

    return find


@contextlib.contextmanager
def started(
    start: Callable[[], "subprocess.Popen[bytes]"],
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that ``start`` starts, known as ours while the block runs, ended after it."""
    process = None
    try:
        with shield(), _starting:
            process = start()
            _running.add(process.pid)
        yield process
    finally:
        if process is not None:
            _end(process)
            _running.discard(process.pid)
            for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
                with contextlib.suppress(OSError):
                    pipe.close()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """SIGINT and SIGTERM to the group, each with a grace, then SIGKILL; the leader is reaped.

    On SIGINT an agent's CLI may still tell what it has cost.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if process.poll() is None:
            _signal_group(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


class _Pump:
    """Moves bytes between a process and its files, a bounded amount at a time."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        stdin: bytes,
        out: IO[bytes],
        err: IO[bytes],
        on_line: Callable[[bytes], bool],
    ) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.process, self.pending, self.on_line = process, memoryview(stdin), on_line
        self.sinks = {process.stdout.fileno(): out, process.stderr.fileno(): err}
        self.stdin, self.stdout = process.stdin, process.stdout.fileno()
        self.line, self.printed, self.stopped = bytearray(), 0, False
        self.selector = selectors.DefaultSelector()
        for fd in (*self.sinks, self.stdin.fileno()):
            os.set_blocking(fd, False)
        for fd in self.sinks:
            self.selector.register(fd, selectors.EVENT_READ)
        self.selector.register(self.stdin.fileno(), selectors.EVENT_WRITE)

    def run(self, limits: Limits, on_tick: Callable[[], bool]) -> End:
        """Until the process is gone or a limit is reached."""
        started = last_output = time.monotonic()
        while self.process.poll() is None:
            if self._turn(TICK_S if self._open_outputs() else CLOSED_TICK_S):
                last_output = time.monotonic()
            self.stopped = on_tick() or self.stopped
            if end := self._over(limits, time.monotonic(), started, last_output):
                return end
        return End.EXITED

    def drain(self) -> None:
        """What is still in the pipes after the end, for a bounded time."""
        until = time.monotonic() + DRAIN_S
        while self._open_outputs() and time.monotonic() < until and self._turn(0.0):
            pass
        if self.line:
            self.on_line(bytes(self.line))
        self.selector.close()

    def _over(self, limits: Limits, now: float, started: float, last: float) -> End | None:
        if self.stopped:
            return End.STOPPED
        if limits.output_bytes is not None and self.printed > limits.output_bytes:
            return End.OUTPUT_LIMIT
        if limits.timeout_s is not None and now - started > limits.timeout_s:
            return End.TIMEOUT
        if limits.idle_s is not None and now - last > limits.idle_s:
            return End.IDLE
        return None

    def _open_outputs(self) -> bool:
        return any(fd in self.selector.get_map() for fd in self.sinks)

    def _turn(self, wait_s: float) -> bool:
        """One round of select; True where the process printed something."""
        printed = False
        for key, _ in self.selector.select(wait_s):
            if key.fd in self.sinks:
                printed = self._read(key.fd) or printed
            else:
                self._write()
        return printed

    def _write(self) -> None:
        try:
            if self.pending:
                self.pending = self.pending[os.write(self.stdin.fileno(), self.pending[:CHUNK]) :]
            if self.pending:
                return
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self.selector.unregister(self.stdin.fileno())
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.selector.unregister(fd)
            return False
        self.sinks[fd].write(data)
        self.printed += len(data)
        if fd == self.stdout:
            self._lines(data)
        return True

    def _lines(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for part in whole:
            self.stopped = self.on_line(bytes(self.line) + part) or self.stopped
            self.line.clear()
        if len(self.line) < LONGEST_LINE:
            self.line += rest
