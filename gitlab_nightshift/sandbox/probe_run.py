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

from gitlab_nightshift.sandbox.launch import Sandbox, end_leftovers, prepare_launch
from gitlab_nightshift.sandbox.launched_process import MOST_STARTS, LauncherReport
from gitlab_nightshift.sandbox.system_paths import build_inside_command
from gitlab_nightshift.sandbox.tiers import Confinement, Tier

GREETING = b"nightshift"
"""The bytes that our services send at once to every client."""
TRIAL_LIMITS_S = (10.0, 20.0, 40.0)
"""Seconds for a trial and its repetitions: a trial that times out shows nothing."""
NO_ANSWER = "timed out"
"""``ProbeOutcome.how`` if an attempt got no answer in time."""


class TimedResult(Protocol):
    """The result of a trial that may be repeated."""

    @property
    def timed_out(self) -> bool:
        """True if the trial timed out before it showed anything."""
        ...


Result = TypeVar("Result", bound=TimedResult)


def repeat_if_timed_out(run_once: Callable[[float], Result]) -> Result:
    """Run a trial with a time limit, and again with longer ones while it times out; returns the
    last result."""
    for limit_s in TRIAL_LIMITS_S:
        result = run_once(limit_s)
        if not result.timed_out:
            break
    return result


@dataclass(frozen=True)
class Probe:
    """An attempt to make in the sandbox: a verb of ``inside/attacks.py`` and its arguments."""

    name: str
    verb: str
    arguments: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class ProbeOutcome:
    """The outcome of an attempt. ``succeeded`` is None if it could not be made; ``how``
    is how it ended."""

    name: str
    succeeded: bool | None
    how: str


@dataclass(frozen=True)
class ProbeResult:
    """The outcomes in order (none if the sandbox could not be set up), and the launcher's report.

    ``timed_out``: the attempts did not end in time, or one waited for an answer that never came.
    """

    outcomes: tuple[ProbeOutcome, ...]
    report: LauncherReport
    stderr: str
    timed_out: bool = False

    @property
    def failure(self) -> str:
        """Why there are no outcomes, "" if there are some."""
        if self.outcomes:
            return ""
        return self.report.failed or self.stderr.strip().rpartition("\n")[2] or "it did not start"


def run_probes(
    sandbox: Sandbox, confinement: Confinement, attempts: Sequence[Probe], limit_s: float
) -> ProbeResult:
    """Make all attempts in one confined process, within ``limit_s`` seconds; none of its
    descendants is left."""
    for _ in range(MOST_STARTS):
        result, outdated = _run_probes_once(sandbox, confinement, attempts, limit_s)
        if not outdated:
            break
    return result


def _run_probes_once(
    sandbox: Sandbox, confinement: Confinement, attempts: Sequence[Probe], limit_s: float
) -> tuple[ProbeResult, bool]:
    """The result, and True if a path to be hidden was gone, so that it counts for nothing."""
    encoded = [[attempt.name, attempt.verb, *attempt.arguments] for attempt in attempts]
    task = {"module": "attacks", "attempts": encoded}
    # Only without a boundary this command runs, and reads the task from stdin. With one, the
    # launcher itself runs the module, with the task from its spec.
    unconfined = build_inside_command("attacks")
    stdin = json.dumps(task).encode() if sandbox.tier is Tier.NONE else b""
    with prepare_launch(sandbox, unconfined, {}, confinement, task=task) as launch:
        process = launch.start()
        timed_out = False
        try:
            stdout, stderr = process.communicate(stdin, timeout=limit_s)
        except subprocess.TimeoutExpired:
            timed_out, stdout, stderr = True, b"", f"no end within {limit_s:g} seconds".encode()
        finally:
            _end_process(process, sandbox)
        report = launch.read_report()
    outcomes = tuple(_parse_outcomes(stdout))
    timed_out = timed_out or any(outcome.how == NO_ANSWER for outcome in outcomes)
    result = ProbeResult(outcomes, report, stderr.decode("utf-8", "replace"), timed_out)
    return result, launch.has_lost_hidden_path()


def _end_process(process: "subprocess.Popen[bytes]", sandbox: Sandbox) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    end_leftovers(sandbox)


def _parse_outcomes(stdout: bytes) -> list[ProbeOutcome]:
    try:
        lines = json.loads(stdout)
        return [ProbeOutcome(name, succeeded, how) for name, succeeded, how in lines]
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
    with selectors.DefaultSelector() as selector:
        for source in (*listeners, stopped):
            selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
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
