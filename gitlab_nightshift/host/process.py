"""The one place that starts processes: deadline, bounded output, and nothing left behind.

A program that is not there and one that fails have the same shape: an exit status and a text.
"""

import contextlib
import errno
import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.host.descendants import end_orphans, own_children, subreaper
from gitlab_nightshift.host.pump import Pump, Sink
from gitlab_nightshift.host.sandbox.launch import Confined, Launch, end_all, launching
from gitlab_nightshift.host.signals import shield

NOT_FOUND = 127
NO_PROGRAM = re.compile(r"program: (?:\[Errno \d+\] )?(.*)")
"""The launcher's last step failed: all that confines was in force, but there is nothing to run."""
GRACE_S = 1.0
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


class NotStarted(OSError):
    """A program that the system did not start; ``strerror`` says why."""


def capture(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float = 300.0,
    memory: int | None = None,
) -> Captured:
    """Run a short, trusted program to its end and return all that it printed.

    ``memory``: bytes that it may have for its data, set before it gets its stdin.
    """
    with contextlib.ExitStack() as stack:
        try:
            launch = Launch(list(argv), dict(env), cwd, confined=False)
            process = stack.enter_context(started(launch.start))
        except OSError as error:
            return Captured(NOT_FOUND, b"", f"{argv[0]}: {error.strerror}".encode())
        if memory is not None:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory, memory))
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
    stdout: Sink,
    stderr: Sink,
    limits: Limits,
    on_line: Callable[[bytes], bool],
    on_tick: Callable[[], bool] = lambda: False,
    confined: Confined | None = None,
) -> Ended:
    """Run a program, its output raw to two sinks, each line of stdout handed to ``on_line``.

    ``on_line`` and ``on_tick`` (called several times a second) end the program by returning True.
    It runs inside the boundary of ``confined``. When this returns, no descendant of the program is
    left. Raises NotStarted, OSError where a sink does, :class:`NightshiftError`
    (``E_POLICY_DENY``) where a process cannot be ended or the boundary could not be set up.
    """
    subreaper()
    orphans = _orphans_since(own_children())
    began = time.monotonic()
    with _launch(argv, cwd, env, confined) as launch:
        try:
            with started(lambda: _start(launch)) as process:
                pump = Pump(process, stdin, stdout, stderr, on_line)
                end = _watched(process, pump, limits, on_tick)
                _end(process)
                end_orphans(orphans)
                pump.drain()
        finally:
            all_gone = end_orphans(orphans) and (confined is None or end_all(confined.sandbox))
        told = launch.told()
    if not all_gone:
        text = f"{argv[0]} left processes behind that cannot be ended"
        raise NightshiftError(Code.POLICY_DENY, text)
    if missing := NO_PROGRAM.fullmatch(told.failed):
        raise NotStarted(errno.ENOENT, missing[1])
    if told.failed or not told.ready:
        text = f"the sandbox could not be set up: {told.failed or 'it said nothing'}"
        raise NightshiftError(Code.POLICY_DENY, text)
    return Ended(end, process.returncode, time.monotonic() - began, told.refused)


def _start(launch: Launch) -> "subprocess.Popen[bytes]":
    try:
        return launch.start()
    except OSError as error:
        raise NotStarted(error.errno, error.strerror) from None


def _watched(
    process: "subprocess.Popen[bytes]", pump: Pump, limits: Limits, on_tick: Callable[[], bool]
) -> End:
    """Why it is over: the process is gone, a limit is reached, or somebody wants its end."""
    began = last_output = time.monotonic()
    while process.poll() is None:
        if pump.turn(TICK_S if pump.outputs_open() else CLOSED_TICK_S):
            last_output = time.monotonic()
        if on_tick() or pump.stopped:
            return End.STOPPED
        if end := _over(limits, pump.printed, began, last_output):
            return end
    return End.EXITED


def _over(limits: Limits, printed: int, began: float, last_output: float) -> End | None:
    now = time.monotonic()
    if limits.output_bytes is not None and printed > limits.output_bytes:
        return End.OUTPUT_LIMIT
    if limits.timeout_s is not None and now - began > limits.timeout_s:
        return End.TIMEOUT
    if limits.idle_s is not None and now - last_output > limits.idle_s:
        return End.IDLE
    return None


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
