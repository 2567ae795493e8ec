"""What is tried against the boundary: the real places, and canaries planted beside them."""

import contextlib
import os
import secrets
import socket
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.host.git import Git
from gitlab_nightshift.host.paths import short_folder
from gitlab_nightshift.host.sandbox.records import Confinement
from gitlab_nightshift.host.sandbox.rows import (
    DIRECT,
    GATEWAY,
    JOB,
    LIVING,
    MEMORY,
    MODES,
    OTHER_FILES,
    PROGRAMS,
    RIGHTS,
    SECRET_FILES,
    SERVICES,
    SIGNALS,
    WRITING,
    Row,
)
from gitlab_nightshift.host.sandbox.trial import Attempt, greeter, tcp_listener, unix_listener

NOWHERE = "192.0.2.1"
"""An address that belongs to nobody (RFC 5737, TEST-NET-1)."""
NOWHERE_6 = "2001:db8::1"
SYSTEM_FILES = (
    *("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/etc/passwd", "/dev/mem"),
    "/proc/self/oom_score_adj",
)
PRIVATE_FILES = ("/etc/shadow", "/etc/gitlab-runner/config.toml", "/var/run/docker.sock")
SOCKETS = {
    "raw": (2, 3, 1),
    "netlink": (16, 3, 0),
    "packet": (17, 3, 0),
    "SCTP": (2, 1, 132),
    "MPTCP": (2, 1, 262),
    "crypto": (38, 5, 0),
    "vsock": (40, 1, 0),
}


@dataclass(frozen=True)
class Targets:
    """The real places: ``secrets`` are files and folders that no agent may read (the covered
    ``.git/config`` and what it includes, ``<project>.tmp``, files of the home), ``outside``
    folders in which nothing may appear, ``written`` folders that an agent may write and the job's
    variables name, ``git`` the one that reads this machine's settings."""

    secrets: tuple[Path, ...] = ()
    outside: tuple[Path, ...] = ()
    written: tuple[Path, ...] = ()
    git: Git | None = None


@dataclass(frozen=True)
class Tries:
    """Attempts, each with its row; ``written`` are files that must not be there afterwards,
    ``lock`` is held by whoever outlives the bead."""

    lock: Path
    rows: dict[str, Row] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    written: dict[str, Path] = field(default_factory=dict)

    def add(self, row: Row, name: str, verb: str, *arguments: str | int) -> None:
        """One more."""
        self.rows[name] = row
        self.attempts.append(Attempt(name, verb, arguments))


def gathered(confinement: Confinement, targets: Targets, stack: contextlib.ExitStack) -> Tries:
    """Everything to try; what is planted for it is removed when ``stack`` closes."""
    tries = Tries(confinement.writable[-1] / f".proof-{secrets.token_hex(8)}")
    _processes(tries)
    _files(tries, targets, confinement, stack)
    _network(tries, confinement, stack)
    _own(tries)
    tries.add(LIVING, "outlive the bead", "outlive", str(tries.lock))
    stack.callback(_remove, [tries.lock])
    return tries


def _processes(tries: Tries) -> None:
    address = id(tries)
    for number, (pid, started) in enumerate(_ancestors()):
        who = "this process" if number == 0 else f"ancestor {pid}"
        tries.add(JOB, f"read the environment of {who}", "environment", pid, started)
        tries.add(MEMORY, f"open the memory of {who}", "memory", pid, started)
        tries.add(MEMORY, f"list the descriptors of {who}", "descriptors", pid, started)
        tries.add(SECRET_FILES, f"use the root of {who}", "folder", pid, started, "root")
        tries.add(MEMORY, f"take a descriptor of {who}", "descriptor_of", pid, started)
        tries.add(SIGNALS, f"signal {who}", "signal", pid, started)
        if number == 0:
            tries.add(MEMORY, "read memory of this process", "vm_read", pid, started, address)
            tries.add(MEMORY, "ptrace this process", "ptrace", pid, started)


def _ancestors() -> list[tuple[int, int]]:
    """This process and all above it, each with its start time, which no other process has."""
    found: list[tuple[int, int]] = []
    pid = os.getpid()
    while pid > 0:
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            break
        found.append((pid, int(fields[19])))
        pid = int(fields[1])
    return found


def _files(
    tries: Tries, targets: Targets, confinement: Confinement, stack: contextlib.ExitStack
) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nightshift-proof-")))
    _plant(tries, folder)
    private = [Path(path) for path in PRIVATE_FILES]
    for path in (*targets.secrets, *(path for path in private if _is_there(path))):
        tries.add(SECRET_FILES, f"read {path}", *_reading(path, confinement))
    for name in SYSTEM_FILES:
        tries.add(WRITING, f"write to {name}", "open_to_write", name)
    for where in (*targets.outside, folder):
        name, path = f"write into {where}", where / f".proof-{secrets.token_hex(8)}"
        tries.written[name] = path
        tries.add(WRITING, name, "write", str(path))
    stack.callback(_remove, list(tries.written.values()))


def _reading(path: Path, confinement: Confinement) -> tuple[str, str | int, *tuple[int, ...]]:
    """The verb and its arguments: what is mounted over is told from the other by its inode."""
    if any(path.is_relative_to(mount.target) for mount in confinement.mounts):
        status = path.stat()
        return "same", str(path), status.st_dev, status.st_ino
    return "list" if path.is_dir() else "read", str(path)


def _plant(tries: Tries, folder: Path) -> None:
    """One canary that only this user may read, and one that everybody may."""
    for name, row, mode in (("private", SECRET_FILES, 0o700), ("public", OTHER_FILES, 0o755)):
        inner = folder / name
        inner.mkdir(mode)
        (inner / "canary").write_text("canary")
        (inner / "canary").chmod(mode & 0o666)
        tries.add(row, f"read a {name} file elsewhere", "read", str(inner / "canary"))
    tries.add(MODES, "change the mode of a file elsewhere", "change_mode", str(inner / "canary"))
    folder.chmod(0o711)


def _is_there(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.exists()
    return False


def _network(tries: Tries, confinement: Confinement, stack: contextlib.ExitStack) -> None:
    other = stack.enter_context(tcp_listener())
    port = other.getsockname()[1]
    stack.enter_context(greeter(other))
    tries.add(SERVICES, "reach a service on loopback", "connect", "127.0.0.1", port)
    tries.add(SERVICES, "reach it by TCP fast open", "fast_open", "127.0.0.1", port)
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    tries.add(SERVICES, "send a datagram", "datagram", "127.0.0.1", udp.getsockname()[1])
    if own := _own_address():
        listener = stack.enter_context(tcp_listener(own))
        tries.add(SERVICES, f"reach {own}", "connect", own, listener.getsockname()[1])
    tries.add(DIRECT, "connect to the network", "connect", NOWHERE, 443)
    tries.add(DIRECT, "connect by IPv6", "connect", NOWHERE_6, 443)
    tries.add(DIRECT, "send a datagram to the network", "datagram", NOWHERE, 53)
    for name, (family, kind, protocol) in SOCKETS.items():
        tries.add(DIRECT, f"make a {name} socket", "socket", family, kind, protocol)
    _unix(tries, stack)
    for gate in confinement.gates:
        tries.add(GATEWAY, f"connect to port {gate.port}", "connect", "127.0.0.1", gate.port)


def _unix(tries: Tries, stack: contextlib.ExitStack) -> None:
    folder = stack.enter_context(short_folder(Path(tempfile.gettempdir())))
    folder.chmod(0o711)
    name = f"nightshift-proof-{secrets.token_hex(8)}"
    stack.enter_context(unix_listener(folder / "socket"))
    stack.enter_context(unix_listener(f"\0{name}"))
    tries.add(PROGRAMS, "connect to an abstract socket", "unix", f"@{name}")
    tries.add(PROGRAMS, "connect to a socket file", "unix", str(folder / "socket"))


def _own_address() -> str:
    """This machine's own address in its network, found without sending anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, contextlib.suppress(OSError):
        udp.connect((NOWHERE, 53))
        return str(udp.getsockname()[0])
    return ""


def _own(tries: Tries) -> None:
    tries.add(RIGHTS, "hold capabilities", "privileges")
    tries.add(RIGHTS, "inherit descriptors", "inherited")
    tries.add(RIGHTS, "use keyrings", "keyring")
    tries.add(RIGHTS, "make a user namespace", "namespace")


def _remove(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
