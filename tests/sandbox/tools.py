"""Run programs inside a sandbox, as the tests of this folder do."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.sandbox.launch import Sandbox, end_leftovers, prepare_launch
from gitlab_nightshift.sandbox.launched_process import LauncherReport
from gitlab_nightshift.sandbox.tier_choice import build_guarantees
from gitlab_nightshift.sandbox.tiers import Confinement, Features, ServicePort

PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else "/usr/local/bin/python3"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Done:
    """How a confined program ended."""

    exit_status: int
    stdout: str
    stderr: str
    report: LauncherReport


@dataclass(frozen=True)
class Room:
    """A sandbox with its own checkout, HOME and TMPDIR, and the rights there."""

    sandbox: Sandbox
    root: Path
    confinement: Confinement

    @property
    def checkout(self) -> Path:
        return self.root / "checkout"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    def using(self, *read_only: Path, services: Sequence[ServicePort] = ()) -> "Room":
        """The same room with more read-only paths and services."""
        confinement = replace(
            self.confinement,
            read_only=(*self.confinement.read_only, *read_only),
            services=(*self.confinement.services, *services),
        )
        return replace(self, confinement=confinement)

    def write(self, name: str, text: str) -> Path:
        """Write a file in the checkout that belongs to the agent's user."""
        path = self.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if identity := self.sandbox.identity:
            os.chown(path, identity.uid, identity.gid)
        return path

    def env(self, **more: str) -> dict[str, str]:
        return {
            "PATH": SYSTEM_PATH,
            "HOME": str(self.scratch / "home"),
            "TMPDIR": str(self.scratch / "tmp"),
            "LANG": "C.UTF-8",
            **more,
        }

    def run(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 120.0,
    ) -> Done:
        """Run a program to its end; none of its processes is left."""
        with prepare_launch(self.sandbox, argv, env or self.env(), self.confinement) as launch:
            process = launch.start()
            try:
                out, err = process.communicate(stdin.encode(), timeout=timeout_s)
            finally:
                end(process)
                assert end_leftovers(self.sandbox)
            report = launch.read_report()
        return Done(process.returncode, os.fsdecode(out), os.fsdecode(err), report)

    def python(self, source: str, **more: str) -> Done:
        """Run a piece of Python with the system's interpreter."""
        return self.run(PYTHON, "-c", source, env=self.env(**more))

    def shell(self, line: str, **more: str) -> Done:
        return self.run("/bin/sh", "-c", line, env=self.env(**more))


def with_features(room: Room, *, landlock: int, notify: bool) -> Room:
    """The same room with other features of the kernel."""
    features = Features(landlock, notify)
    guarantees = build_guarantees(room.sandbox.tier, features)
    return replace(room, sandbox=replace(room.sandbox, features=features, guarantees=guarantees))


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and its group, and reap it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


@contextlib.contextmanager
def open_folder(parent: Path = Path("/tmp")) -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's."""
    root = Path(tempfile.mkdtemp(prefix="nightshift-test-", dir=parent))
    root.chmod(0o755)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def create_room(sandbox: Sandbox, root: Path) -> Room:
    """A checkout and a scratch folder for a sandbox."""
    checkout, scratch = root / "checkout", root / "scratch"
    folders = (checkout, scratch, scratch / "home", scratch / "tmp")
    for folder in folders:
        folder.mkdir()
        if sandbox.identity:
            os.chown(folder, sandbox.identity.uid, sandbox.identity.gid)
    return Room(sandbox, root, Confinement(checkout, (checkout, scratch)))


@contextlib.contextmanager
def relay(port: int, path: Path) -> Iterator[ServicePort]:
    """Make the service on a port listen on a UNIX socket too, as a gateway does by itself."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen(64)
        threading.Thread(target=_relay, args=(listener, port), daemon=True).start()
        yield ServicePort(port, path)
        listener.shutdown(socket.SHUT_RDWR)


def _relay(listener: socket.socket, port: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            near, _ = listener.accept()
            threading.Thread(target=_join, args=(near, port), daemon=True).start()


def _join(near: socket.socket, port: int) -> None:
    with near, socket.create_connection(("127.0.0.1", port)) as far:
        back = threading.Thread(target=_pump, args=(far, near), daemon=True)
        back.start()
        _pump(near, far)
        back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
