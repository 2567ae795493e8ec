"""Runs programs: ``capture`` runs a short, trusted one, ``open_batch_process`` a trusted one that
answers requests; ``stream`` and ``run_bounded`` run any other, within limits and without leaving a
process behind.
"""

import contextlib
import errno
import os
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.sandbox.launched_process import MOST_STARTS, Launch, LauncherReport
from gitlab_nightshift.system.processes import become_subreaper, end_orphans, list_own_children
from gitlab_nightshift.system.pump import Pump
from gitlab_nightshift.system.signals import defer_signals
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.sandbox.launch import ProcessBoundary
    from gitlab_nightshift.system.raw_logs import Sink

Process = subprocess.Popen[bytes]
NOT_FOUND = 127
"""The exit status of a shell for a program that it cannot find."""
PROGRAM_STEP_FAILED = compile_lazily(r"program: (?:\[Errno \d+\] )?(.*)")
"""The launcher's report if its last step failed: the boundary was in force, but the program could
not be run."""
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""The exit statuses, without and with bubblewrap, if the program or its parent was killed, perhaps
before the sandbox was complete and the program ran."""
GRACE_S = 1.0
"""Seconds that a program has after each signal that asks it to end."""
TICK_S = 0.2
"""Seconds between two polls of a program."""
CLOSED_TICK_S = 0.01
"""Seconds between two polls of a program that has closed its outputs."""

_running: set[int] = set()
"""The pids of the processes that a block of ``start_process`` owns."""
_starting = threading.Lock()
"""Held while a process starts: without its pid in ``_running`` it looks like an orphan."""
_started_programs = 0


@dataclass(frozen=True)
class CapturedOutput:
    """The exit status of a short program, and all that it printed."""

    exit_status: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        """True for exit status 0."""
        return self.exit_status == 0


class EndReason(StrEnum):
    """Why a streamed program ended."""

    EXITED = "exited"
    STOPPED = "stopped"
    IDLE = "idle"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"


@dataclass(frozen=True)
class ProgramEnd:
    """The end of a streamed program. A negative exit status is the signal that ended it;
    ``refused`` are the calls that the sandbox refused."""

    end: EndReason
    exit_status: int
    duration_s: float
    refused: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        """The exit status in words."""
        if self.exit_status in KILLED:
            return "SIGKILL (perhaps memory ran out)"
        return f"exit status {self.exit_status}"


@dataclass(frozen=True)
class ProcessLimits:
    """When to end a program: after so many seconds, seconds without output, or printed bytes."""

    timeout_s: float | None = None
    idle_s: float | None = None
    output_bytes: int | None = None


class ProgramStartError(OSError):
    """The system could not start a program; ``strerror`` says why."""


def capture(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float = 300.0,
    memory: int | None = None,
) -> CapturedOutput:
    """Run a short, trusted program to its end and return all that it printed. One that cannot be
    started has exit status 127 and an error text, one that exceeds ``timeout_s`` status -9.

    ``memory`` limits its data (bytes); the limit is set before it gets its stdin.
    """
    with contextlib.ExitStack() as stack:
        try:
            launch = Launch(list(argv), dict(env), cwd, confined=False)
            process = stack.enter_context(start_process(launch.start))
        except OSError as error:
            return CapturedOutput(NOT_FOUND, b"", f"{argv[0]}: {error.strerror}".encode())
        if memory is not None:
            # The program may have ended: it need not wait for its stdin.
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory, memory))
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return CapturedOutput(-signal.SIGKILL, b"", f"no end within {timeout_s:.0f} s".encode())
        return CapturedOutput(process.returncode, stdout, stderr)


@dataclass(frozen=True)
class BoundedRun:
    """A command's exit status, its end in words, and the start and end of its outputs."""

    exit_status: int
    how: str
    output: bytes


class _OutputEnds:
    """Keeps the first and the last bytes of what is written, up to ``longest`` in all."""

    def __init__(self, longest: int) -> None:
        self._half, self._first, self._last, self._size = longest // 2, b"", b"", 0

    def write(self, data: bytes) -> None:
        self._size += len(data)
        free = self._half - len(self._first)
        self._first += data[:free]
        self._last = (self._last + data[free:])[-self._half :]

    def join(self) -> bytes:
        left_out = self._size - len(self._first) - len(self._last)
        mark = b"\n... (%d bytes left out) ...\n" % left_out if left_out else b""
        return self._first + mark + self._last


def run_bounded(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float, longest: int
) -> BoundedRun:
    """Run a program within this process's own rights, and end what it leaves behind. About
    ``longest`` bytes of its outputs are kept; if it prints a hundred times as many, it is ended.
    Raises ProgramStartError."""
    output, limits = _OutputEnds(longest), ProcessLimits(timeout_s, output_bytes=100 * longest)
    launch = Launch(list(argv), dict(env), cwd, confined=False)
    end, status = run_to_end(partial(_start, launch), b"", output, output, limits)
    if end is EndReason.EXITED:
        how = ProgramEnd(end, status, 0.0).how
    else:
        how = f"ended: {'it printed too much' if end is EndReason.OUTPUT_LIMIT else 'too slow'}"
    return BoundedRun(status, how, output.join())


def stream(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes,
    stdout: "Sink",
    stderr: "Sink",
    limits: ProcessLimits,
    on_line: Callable[[bytes], bool],
    on_tick: Callable[[], bool] = lambda: False,
    boundary: "ProcessBoundary | None" = None,
) -> ProgramEnd:
    """Run a program inside ``boundary``, if any. Its outputs go raw to two sinks, and each line of
    stdout to ``on_line``.

    ``on_line`` and ``on_tick`` (called several times a second) end the program by returning True.
    When this returns, no descendant of the program is left. Raises ProgramStartError, OSError if a
    sink does, :class:`NightshiftError` (``E_POLICY_DENY``) if a process cannot be ended or the
    boundary could not be set up.
    """
    started_s = time.monotonic()
    for _ in range(MOST_STARTS):
        with _launch(argv, cwd, env, boundary) as launch:
            start = partial(_start, launch)
            try:
                end, exit_status = run_to_end(
                    start, stdin, stdout, stderr, limits, on_line, on_tick
                )
            finally:
                all_gone = boundary is None or _end_confined(boundary)
            report = launch.read_report()
        # Again only if a hidden path disappeared, so that the program has not run.
        if not (all_gone and end is EndReason.EXITED and launch.has_lost_hidden_path()):
            break
    if not all_gone:
        raise _build_left_behind_error(argv[0])
    _check_started(report, killed=end is EndReason.EXITED and exit_status in KILLED)
    return ProgramEnd(end, exit_status, time.monotonic() - started_s, report.refused)


def _check_started(report: LauncherReport, *, killed: bool) -> None:
    if start_failure := PROGRAM_STEP_FAILED.fullmatch(report.failed):
        # The report has no error number, only the text.
        raise ProgramStartError(errno.ENOENT, start_failure[1])
    if not killed and (report.failed or not report.ready):
        reason = f"the sandbox could not be set up: {report.failed or 'it reported nothing'}"
        raise NightshiftError(Code.POLICY_DENY, reason)


def count_started_programs() -> int:
    """The number of calls of ``run_to_end`` so far. As long as it stays the same, no program of
    ours has changed a folder that was read before."""
    return _started_programs


def run_to_end(
    start: Callable[[], Process],
    stdin: bytes,
    stdout: "Sink",
    stderr: "Sink",
    limits: ProcessLimits,
    on_line: Callable[[bytes], bool] = lambda _line: False,
    on_tick: Callable[[], bool] = lambda: False,
) -> tuple[EndReason, int]:
    """Run the process that ``start`` starts to its end, as :func:`stream` does; returns why it
    ended and its exit status. No descendant is left. Raises what ``start`` and the sinks raise."""
    global _started_programs  # noqa: PLW0603
    _started_programs += 1
    become_subreaper()  # descendants whose parent dies become our children, which we can find
    find_orphans = _make_orphan_finder(list_own_children())
    try:
        with start_process(start) as process:
            pump = Pump(process, stdin, stdout, stderr, on_line)
            end = _watch(process, pump, limits, on_tick)
            _end(process)
            end_orphans(find_orphans)  # before the pump drains: they hold the pipes open
            pump.drain()
    finally:
        all_gone = end_orphans(find_orphans)
    if not all_gone:
        raise _build_left_behind_error(str(process.args))
    return end, process.returncode


def _build_left_behind_error(name: str) -> NightshiftError:
    return NightshiftError(Code.POLICY_DENY, f"{name} left processes behind that cannot be ended")


def _start(launch: Launch) -> Process:
    try:
        return launch.start()
    except OSError as error:
        raise ProgramStartError(error.errno, error.strerror) from None


def _watch(
    process: Process, pump: Pump, limits: ProcessLimits, on_tick: Callable[[], bool]
) -> EndReason:
    """Wait until the process ends, reaches a limit, or is stopped by a callback; returns which of
    these it was."""
    started_s = last_output_s = time.monotonic()
    while process.poll() is None:
        if pump.move_bytes(TICK_S if pump.outputs_open() else CLOSED_TICK_S):
            last_output_s = time.monotonic()
        if on_tick() or pump.stopped:
            return EndReason.STOPPED
        if end := _find_reached_limit(limits, pump.printed, started_s, last_output_s):
            return end
    return EndReason.EXITED


def _find_reached_limit(
    limits: ProcessLimits, printed: int, started_s: float, last_output_s: float
) -> EndReason | None:
    now_s = time.monotonic()
    if limits.output_bytes is not None and printed > limits.output_bytes:
        return EndReason.OUTPUT_LIMIT
    if limits.timeout_s is not None and now_s - started_s > limits.timeout_s:
        return EndReason.TIMEOUT
    if limits.idle_s is not None and now_s - last_output_s > limits.idle_s:
        return EndReason.IDLE
    return None


def _launch(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], boundary: "ProcessBoundary | None"
) -> contextlib.AbstractContextManager[Launch]:
    if boundary:
        from gitlab_nightshift.sandbox.launch import prepare_launch

        return prepare_launch(boundary.sandbox, argv, env, boundary.confinement)
    return contextlib.nullcontext(Launch(list(argv), dict(env), cwd, confined=False))


def _end_confined(boundary: "ProcessBoundary") -> bool:
    from gitlab_nightshift.sandbox.launch import end_leftovers

    return end_leftovers(boundary.sandbox)


def _make_orphan_finder(other_children: set[int]) -> Callable[[], set[int]]:
    """A function that finds all children but ``other_children`` and those that a block of
    ``start_process`` owns."""

    def find() -> set[int]:
        with _starting:
            return list_own_children() - other_children - _running

    return find


@contextlib.contextmanager
def start_process(start: Callable[[], Process]) -> Iterator[Process]:
    """Start a process, and end it at the end of the block."""
    process = None
    try:
        # A signal's exception between the start and the assignment would lose the process.
        with defer_signals(), _starting:
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


def _end(process: Process) -> None:
    """Send SIGINT and SIGTERM to the group, with ``GRACE_S`` after each, then SIGKILL, and reap the
    leader. On SIGINT an agent's CLI can still report its cost."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if process.poll() is None:
            _signal_group(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGKILL)
        # We may have dropped the right to signal it (EPERM): then the caller's cleanup ends it.
        with contextlib.suppress(PermissionError):
            process.kill()
            process.wait()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


# --- a program that answers one request after another ---------------------------------------------


LONGEST_REQUEST = select.PIPE_BUF
"""Bytes that a pipe takes at once (pipe(7)): so sending a request never waits for a program that
itself waits until its last answer is read."""
_CHUNK = 1024 * 1024


class BatchProcess:
    """A program that answers requests, as ``git cat-file --batch``. Read each answer to its end
    before the next request. Every method raises EOFError once the program has ended, or if it is
    silent for ``timeout_s`` seconds."""

    def __init__(self, process: Process, timeout_s: float) -> None:
        assert process.stdin and process.stdout
        self._stdin, self._stdout = process.stdin.fileno(), process.stdout.fileno()
        self._timeout_ms, self._unread = int(timeout_s * 1000), bytearray()

    def send(self, request: bytes) -> None:
        """Send at most ``LONGEST_REQUEST`` bytes."""
        try:
            os.write(self._stdin, request)
        except BrokenPipeError:
            raise EOFError from None

    def read_line(self) -> bytes:
        """The next line, without its end."""
        while (end := self._unread.find(b"\n")) < 0:
            self._wait()
        return self._take(end + 1)[:-1]

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        while len(self._unread) < size:
            self._wait()
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self._unread)[:size])  # a view, else the bytes are copied twice
        del self._unread[:size]
        return data

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        data = os.read(self._stdout, _CHUNK) if poll.poll(self._timeout_ms) else b""
        if not data:
            raise EOFError
        self._unread += data


@contextlib.contextmanager
def open_batch_process(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> Iterator[BatchProcess]:
    """Start a program for the block, in its own session, its stderr dropped. Raises OSError."""

    def start() -> Process:
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
        yield BatchProcess(process, timeout_s)
