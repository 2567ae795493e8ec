"""Starts of the command without their imports: one process has them all, and forks a server for
each process that runs tests, which forks for each start.

    with warm.start(["check", "--json"], cwd=folder, env=env) as started:
        out, err = started.communicate()

A start has what a shell would give it: its own pid, folder, environment, descriptors and signals.
Only ``/proc/PID/environ`` and the command line are those of the process that forked, so tests of
these start Python itself.
"""

import array
import atexit
import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from gitlab_nightshift.system.processes import become_subreaper
from tests.support import kept

if TYPE_CHECKING:
    from gitlab_nightshift.text.lazy_patterns import LazyPattern

ROOT = Path(__file__).parents[2]
WARMING = {
    "test_a.py": "import unittest\nclass TestA(unittest.TestCase):\n"
    "    def test_a(self): self.assertEqual(1, 1)\n",
    "a.py": "def a():\n    return 1\n",
    "Makefile": "test:\n\tpython3 -m unittest\n",
    "pyproject.toml": "[tool.ruff]\nline-length = 100\n",
}
"""A change that is judged first, so that forks find the caches of what most changes touch."""
SMALL_RESERVE_BYTES = 200_000
"""What a start sets aside on a disk: the real 8 MB, three times, are 2% of a test's night."""
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
    """A fork of the process that has the imports: it ends with this one, whose end of the
    connection it reads."""
    folder = kept.shared or Path(tempfile.mkdtemp(prefix="prepared-"))
    with (folder / "prepared.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            own, pid = _connected(folder)
        except OSError:
            kept.prepared = _prepare(folder)
            own, pid = _connected(folder)
    kept.services[pid] = own
    return own


@contextlib.contextmanager
def _address(folder: Path) -> Iterator[str]:
    """Of a socket in a folder, whose path may be too long for one."""
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/prepared"
    finally:
        os.close(fd)


def _connected(folder: Path) -> tuple[socket.socket, int]:
    """The connection to a new server, and its pid. Raises OSError."""
    own = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with _address(folder) as address:
            own.connect(address)
        if not (pid := own.recv(100)):
            raise ConnectionResetError  # it was about to end
    except OSError:
        own.close()
        raise
    return own, int(pid)


def _prepare(folder: Path) -> int:
    """Start the process that has the imports; its pid."""
    (folder / "prepared").unlink(missing_ok=True)
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    root = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    code = f"{root}; from tests.support import warm; warm.main()"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        with _address(folder) as address:
            listener.bind(address)
        listener.listen(64)
        listener.set_inheritable(True)
        command = [sys.executable, "-I", "-c", code, str(listener.fileno())]
        process = subprocess.Popen(command, env=env, cwd="/", pass_fds=[listener.fileno()])
    process.returncode = 0  # nobody waits for it
    return process.pid


# --- the far side ---------------------------------------------------------------------------------


def fork_servers(listener: socket.socket) -> socket.socket:
    """Fork for each that connects; returns, in the fork, the connection. Ends with the last."""
    servers = 0
    while True:
        with selectors.DefaultSelector() as waiting:
            waiting.register(listener, selectors.EVENT_READ)
            connected = bool(waiting.select(1 if servers else None))
        if connected:
            calls, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                calls.send(str(os.getpid()).encode())
                return calls
            calls.close()
            servers += 1
        while servers and os.waitpid(-1, os.WNOHANG)[0]:
            servers -= 1
        if not servers:
            sys.exit()


def serve(calls: socket.socket) -> None:
    """Fork for each call; returns, in the fork, with the call's state in force."""
    become_subreaper()  # what its starts leave behind is kept apart from that of other servers
    become_subreaper.cache_clear()  # it is not inherited
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
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if end := ends.pop(ended[0], None):  # else it was an orphan
                with end, contextlib.suppress(BrokenPipeError):  # the test has failed and is gone
                    end.send(str(os.waitstatus_to_exitcode(ended[1])).encode())


def _become(memory: int, streams: Sequence[int]) -> None:
    """In the fork: descriptors, signals, folder and environment as a shell would give them."""
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

    gc.disable()
    import_modules()
    import tests.support.stages  # noqa: F401 - every start needs it
    from gitlab_nightshift.system.disk_reserve import Reserve

    Reserve.__init__.__defaults__ = (SMALL_RESERVE_BYTES,)
    for pattern in lazy_patterns():
        pattern.compile()
    make_caches()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)  # what a fork makes is small beside what it has
    gc.enable()


def import_modules() -> None:
    """The package's, but for those of the sandbox's far side."""
    import importlib
    import pkgutil

    import gitlab_nightshift as package

    apart = (".inside", ".recording", ".sample", "__main__")
    for module in pkgutil.walk_packages(package.__path__, "gitlab_nightshift."):
        if not any(part in module.name for part in apart):
            importlib.import_module(module.name)


def lazy_patterns() -> "list[LazyPattern]":
    """Those that there are in this process."""
    import gc

    from gitlab_nightshift.text.lazy_patterns import LazyPattern

    return [each for each in gc.get_objects() if isinstance(each, LazyPattern)]


@cache
def make_caches() -> None:
    """What every process of a run would make for itself: a fork has it from its parent."""
    from gitlab_nightshift.stages.report.page import load_template

    _compile_patterns()
    _build_schemas()
    load_template()


def _compile_patterns() -> None:
    """What every run compiles once: a change is judged, which leaves nothing but caches."""
    import gitlab
    import tenacity  # noqa: F401 - at the first request

    from gitlab_nightshift.commands.change_check import CheckRequest, check
    from gitlab_nightshift.job.job_secrets import read_secrets
    from gitlab_nightshift.policy.change_rules import find_violations
    from gitlab_nightshift.policy.write_gate import list_gated_files
    from gitlab_nightshift.records.products import ChangeSize
    from gitlab_nightshift.redaction.redactor import Redactor, holds_secret
    from gitlab_nightshift.sandbox.credential_files import read_machine_secrets
    from gitlab_nightshift.settings.model import Settings
    from tests.support.world import MODEL_KEY, SECRETS

    for known in (SECRETS, (MODEL_KEY,), ()):
        named = {f"TOKEN_{number}": value for number, value in enumerate(known)}
        values = (*read_secrets(named).values, *read_machine_secrets({}))
        Redactor(values)(b"a text")
        holds_secret(b"a text", values)
    gitlab.Gitlab("http://127.0.0.1")
    change = ChangeSize(("test_a.py",), 1, 0)
    find_violations(change, {}, Settings(), frozenset(), "")
    list_gated_files(change, Settings(), "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in ("init -q", "-c user.name=A -c user.email=a commit -q --allow-empty -m A"):
            subprocess.run(["git", *command.split()], cwd=folder, check=True)
        for path, text in WARMING.items():
            (folder / path).write_text(text)
        check(CheckRequest(folder, os.environ))


def _build_schemas() -> None:
    """What checks records and hand-offs."""
    from gitlab_nightshift.records.delegation_records import Payload
    from gitlab_nightshift.records.storage import build_adapter
    from gitlab_nightshift.settings.load import build_settings
    from gitlab_nightshift.settings.model import Settings
    from gitlab_nightshift.stages.work.handoff import HANDOFF_TYPES, build_schema

    build_settings(asdict(Settings()))
    build_adapter(Payload)
    for bead in HANDOFF_TYPES:
        build_schema(bead)


def main() -> None:
    """The far side; it comes back once for each call, in the fork."""
    _import_everything()
    become_subreaper.cache_clear()
    serve(fork_servers(socket.socket(fileno=int(sys.argv[1]))))
    from gitlab_nightshift.cli import run
    from tests.support.stages import start_by_forks

    start_by_forks()
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
