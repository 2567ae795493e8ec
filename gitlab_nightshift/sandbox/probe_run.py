"""Runs attempts inside a sandbox, and collects their outcomes."""

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from gitlab_nightshift.sandbox.launch import Sandbox, end_all, prepare_launch
from gitlab_nightshift.sandbox.launched_process import MOST_STARTS, LauncherReport
from gitlab_nightshift.sandbox.system_paths import build_inside_command
from gitlab_nightshift.sandbox.tiers import Confinement, Tier

GREETING = b"nightshift"
"""What our services send at once to whoever connects."""
LIMITS_S = (10.0, 20.0, 40.0)
"""Seconds for a trial and its repetitions: a trial that times out shows nothing."""
TIMED_OUT = "timed out"
"""How an attempt ends that waited for an answer and got none."""


class TimedResult(Protocol):
    """The result of a trial that may be repeated."""

    @property
    def late(self) -> bool:
        """True if the trial timed out before it showed anything."""
        ...


Result = TypeVar("Result", bound=TimedResult)


def repeat_if_late(run_once: Callable[[float], Result]) -> Result:
    """Run a trial with a time limit, and again with longer ones while it is late; returns the last
    result."""
    for limit_s in LIMITS_S:
        result = run_once(limit_s)
        if not result.late:
            break
    return result


@dataclass(frozen=True)
class Probe:
    """An attempt to make inside: a verb of ``inside/attacks.py`` and its arguments."""

    name: str
    verb: str
    arguments: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class ProbeOutcome:
    """The outcome of an attempt. ``open``: it got through (None: it could not be tried); ``how`` it
    ended."""

    name: str
    open: bool | None
    how: str


@dataclass(frozen=True)
class ProbeResult:
    """The outcomes in order (none if the sandbox could not be set up), and the launcher's report.

    ``late``: the attempts did not end in time, or one waited for an answer that never came.
    """

    outcomes: tuple[ProbeOutcome, ...]
    report: LauncherReport
    stderr: str
    late: bool = False

    @property
    def failure(self) -> str:
        """Why there are no outcomes, "" if there are some."""
        if self.outcomes:
            return ""
        return self.report.failed or self.stderr.strip().rpartition("\n")[2] or "it did not start"


def run_probes(
    sandbox: Sandbox, confinement: Confinement, attempts: Sequence[Probe], limit_s: float
) -> ProbeResult:
    """Make all attempts in one confined process; none of its descendants is left."""
    for _ in range(MOST_STARTS):
        result, outdated = _run_probes_once(sandbox, confinement, attempts, limit_s)
        if not outdated:
            break
    return result


def _run_probes_once(
    sandbox: Sandbox, confinement: Confinement, attempts: Sequence[Probe], limit_s: float
) -> tuple[ProbeResult, bool]:
    """The result, and True if it was outdated at once: a path to be hidden was gone."""
    encoded = [[a.name, a.verb, *a.arguments] for a in attempts]
    task = {"module": "attacks", "attempts": encoded}
    # This command runs only without a boundary, and reads the task from stdin. Else the launcher
    # runs the module itself, with the task from its spec.
    unconfined = build_inside_command("attacks")
    stdin = json.dumps(task).encode() if sandbox.tier is Tier.NONE else b""
    with prepare_launch(sandbox, unconfined, {}, confinement, task=task) as launch:
        process = launch.start()
        late = False
        try:
            out, err = process.communicate(stdin, timeout=limit_s)
        except subprocess.TimeoutExpired:
            late, out, err = True, b"", f"no end within {limit_s:g} seconds".encode()
        finally:
            _end(process, sandbox)
        report = launch.read_report()
    outcomes = tuple(_parse_outcomes(out))
    late = late or any(outcome.how == TIMED_OUT for outcome in outcomes)
    result = ProbeResult(outcomes, report, err.decode("utf-8", "replace"), late)
    return result, launch.has_lost_hidden_path()


def _end(process: "subprocess.Popen[bytes]", sandbox: Sandbox) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    end_all(sandbox)


def _parse_outcomes(out: bytes) -> list[ProbeOutcome]:
    try:
        return [ProbeOutcome(name, is_open, how) for name, is_open, how in json.loads(out)]
    except ValueError:
        return []


@contextlib.contextmanager
def open_greeter(*listeners: socket.socket) -> Iterator[None]:
    """Greet every client: a greeting that arrives proves that the connection works."""
    stop, stopped = socket.socketpair()
    thread = threading.Thread(target=_greet, args=(listeners, stopped), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.close()
        thread.join()
        stopped.close()


def _greet(listeners: Sequence[socket.socket], stopped: socket.socket) -> None:
    with selectors.DefaultSelector() as ready:
        for waiting in (*listeners, stopped):
            ready.register(waiting, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is stopped:
                    return
                with contextlib.suppress(OSError):
                    client, _ = key.fileobj.accept()  # type: ignore[union-attr]
                    with client:
                        client.sendall(GREETING)


@contextlib.contextmanager
def open_tcp_listener(host: str = "127.0.0.1") -> Iterator[socket.socket]:
    """A listener on a free port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((host, 0))
        listener.listen()
        yield listener


@contextlib.contextmanager
def open_unix_listener(address: Path | str) -> Iterator[socket.socket]:
    """A listener on a path (usable by everybody) or on an abstract name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(address))
        if isinstance(address, Path):
            address.chmod(0o777)
        listener.listen()
        try:
            yield listener
        finally:
            if isinstance(address, Path):
                address.unlink(missing_ok=True)
