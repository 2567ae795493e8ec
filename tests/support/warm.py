"""Starts of the command without their imports: one process has them all and forks for each start.

    with warm.start(["check", "--json"], cwd=folder, env=env) as started:
        out, err = started.communicate()

A start has what a shell would give it: its own pid, folder, environment, descriptors and signals.
Only ``/proc/PID/environ`` and the command line are those of the process that forked, so tests of
these start Python itself.
"""

import array
import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.support import kept

ROOT = Path(__file__).parents[2]
LIMIT_S = 300.0
"""Nothing that a test starts takes longer, on a machine that is ten times as slow either."""


class Started:
    """A start of the command; as much of ``subprocess.Popen`` as tests need."""

    def __init__(self, pid: int, ends: socket.socket, out: int, err: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: IO[bytes] = os.fdopen(out, "rb")
        self.stderr: IO[bytes] = os.fdopen(err, "rb")
        self._ends = ends

    def wait(self, timeout: float = LIMIT_S) -> int:
        """The exit status, negative for a signal. Raises TimeoutExpired."""
        if self.returncode is None:
            self._ends.settimeout(timeout)
            try:
                said = self._ends.recv(100)
            except TimeoutError:
                raise subprocess.TimeoutExpired("nightshift", timeout) from None
            self.returncode = int(said)
            self._ends.close()
        return self.returncode

    def poll(self) -> int | None:
        if self.returncode is None and _readable(self._ends):
            self.wait()
        return self.returncode

    def communicate(self, timeout: float = LIMIT_S) -> tuple[bytes, bytes]:
        """All that it printed, once it has ended. Raises TimeoutExpired."""
        until = time.monotonic() + timeout
        texts: dict[IO[bytes], bytes] = {self.stdout: b"", self.stderr: b""}
        with selectors.DefaultSelector() as open_streams:
            for stream in texts:
                open_streams.register(stream, selectors.EVENT_READ)
            while open_streams.get_map():
                ready = open_streams.select(until - time.monotonic())
                if not ready:
                    raise subprocess.TimeoutExpired("nightshift", timeout)
                for key, _ in ready:
                    stream = key.fileobj  # type: ignore[assignment]
                    data = os.read(key.fd, 1 << 16)
                    texts[stream] += data
                    if not data:
                        open_streams.unregister(stream)
        self.wait(max(until - time.monotonic(), 1.0))
        return texts[self.stdout], texts[self.stderr]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        self.wait()
        self.stdout.close()
        self.stderr.close()


def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: int | None = None,
    before: str = "",
) -> Started:
    """Start ``nightshift ARGV`` in a folder with exactly this environment.

    ``before`` is Python that is run in the new process first: what a test changes of the program.
    """
    own, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    given = [others.fileno(), nothing if stdin is None else stdin, out_end, err_end]
    try:
        call = {"argv": list(argv), "cwd": str(cwd), "env": dict(env), "before": before}
        memory = os.memfd_create("call")
        os.write(memory, json.dumps(call).encode())
        os.lseek(memory, 0, os.SEEK_SET)
        socket.send_fds(_server(), [b"start"], [memory, *given])
        pid = int(own.recv(100))
    finally:
        others.close()
        for fd in (memory, nothing, out_end, err_end):
            os.close(fd)
    return Started(pid, own, out, err)


def _readable(of: socket.socket) -> bool:
    with selectors.DefaultSelector() as waiting:
        waiting.register(of, selectors.EVENT_READ)
        return bool(waiting.select(0))


@cache
def _server() -> socket.socket:
    """The process that has the imports; it ends with this one, whose end of the socket it reads."""
    own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    its.set_inheritable(True)
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    root = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    code = f"{root}; from tests.support import warm; warm.main()"
    command = [sys.executable, "-I", "-c", code, str(its.fileno())]
    with its:
        process = subprocess.Popen(command, env=env, cwd="/", pass_fds=[its.fileno()])
    process.returncode = 0  # nobody waits for it
    kept.services[process.pid] = own
    return own


# --- the far side ---------------------------------------------------------------------------------


def serve(calls: socket.socket) -> None:
    """Fork for each call; returns, in the fork, with the call's state in force."""
    ends: dict[int, socket.socket] = {}
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    with selectors.DefaultSelector() as waiting:
        waiting.register(calls, selectors.EVENT_READ)
        waiting.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in waiting.select()}
            if woken in ready:
                woken.recv(1 << 10)
                _tell_ended(ends)
            if calls in ready:
                data, descriptors = _received(calls)
                if not data:
                    sys.exit()
                memory, answers, *streams = descriptors
                end = socket.socket(fileno=answers)
                if (pid := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    for each in (calls, woken, wake, end, *ends.values()):
                        each.close()
                    break
                end.send(str(pid).encode())
                ends[pid] = end
                for fd in (memory, *streams):
                    os.close(fd)
    _become(memory, streams)


def _received(calls: socket.socket) -> tuple[bytes, list[int]]:
    data, descriptors, _, _ = socket.recv_fds(calls, 100, 5)
    return data, list(array.array("i", descriptors))


def _tell_ended(ends: dict[int, socket.socket]) -> None:
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with ends.pop(pid) as end:
            try:
                end.send(str(os.waitstatus_to_exitcode(status)).encode())
            except BrokenPipeError:  # the test has failed and is gone
                continue


def _become(memory: int, streams: Sequence[int]) -> None:
    """In the fork: descriptors, signals, folder and environment as a shell would give them."""
    import tempfile

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with os.fdopen(memory, "rb") as file:
        call = json.load(file)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    # The old ones know whether the old descriptors could seek.
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["env"])
    time.tzset()
    tempfile.tempdir = None
    sys.argv = ["nightshift", *call["argv"]]
    exec(call["before"], {})


def _import_everything() -> None:
    """All that a run imports by and by."""
    import gc
    import importlib
    import pkgutil

    import gitlab_nightshift as package

    apart = (".inside", ".recording", ".sample", "__main__")
    for module in pkgutil.walk_packages(package.__path__, "gitlab_nightshift."):
        if not any(part in module.name for part in apart):
            importlib.import_module(module.name)
    _compile_patterns()
    _build_schemas()
    gc.collect()
    gc.freeze()


def _compile_patterns() -> None:
    """What every run compiles once: a change is judged, which leaves nothing but caches."""
    import tempfile

    import gitlab
    import tenacity  # noqa: F401 - at the first request

    from gitlab_nightshift.desk.check import Asked, check
    from gitlab_nightshift.policy import ChangeView, gated, violations
    from gitlab_nightshift.redaction import Redactor
    from gitlab_nightshift.settings import Settings, read_secrets
    from tests.support.world import MODEL_KEY, SECRETS

    for known in (SECRETS, (MODEL_KEY,), ()):
        named = {f"TOKEN_{number}": value for number, value in enumerate(known)}
        Redactor(read_secrets(named).values)(b"a text")
    gitlab.Gitlab("http://127.0.0.1")
    view = ChangeView(("test_a.py",), 1)
    violations(view, Settings(), frozenset(), "")
    gated(view, Settings(), "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in ("init -q", "-c user.name=A -c user.email=a commit -q --allow-empty -m A"):
            subprocess.run(["git", *command.split()], cwd=folder, check=True)
        (folder / "test_a.py").write_text("def test_a():\n    assert 1 == 1\n")
        check(Asked(folder, os.environ))


def _build_schemas() -> None:
    """What checks records and hand-offs."""
    from gitlab_nightshift.records import Bundle, Plan, Published, RunResult, adapter
    from gitlab_nightshift.work.handoff import KINDS, schema

    for kind in (Bundle, Plan, Published, RunResult):
        adapter(kind)
    for bead in KINDS:
        schema(bead)


def main() -> None:
    """The far side; it comes back once for each call, in the fork."""
    _import_everything()
    serve(socket.socket(fileno=int(sys.argv[1])))
    from gitlab_nightshift.cli import run

    try:
        status = run(sys.argv[1:], os.environ)
    except SystemExit as end:  # the command line was wrong, or asked for help
        status = end.code if isinstance(end.code, int) else 1
    threading._shutdown()  # type: ignore[attr-defined] # what an exit does, but for
    atexit._run_exitfuncs()  # taking every module apart, which costs more than most starts
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    os._exit(status)
