"""The attempts against the boundary, on the real targets and on canaries planted beside them."""

import contextlib
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.sandbox.probe_run import (
    Probe,
    open_greeter,
    open_tcp_listener,
    open_unix_listener,
)
from gitlab_nightshift.sandbox.tiers import (
    DIRECT_NETWORK,
    ENVIRONMENTS,
    FILE_MODES,
    GATEWAY,
    MEMORY,
    OTHER_FILES,
    OTHER_SOCKETS,
    OUTLIVING,
    RIGHTS,
    SECRET_FILES,
    SERVICES,
    SIGNALS,
    WRITING,
    Confinement,
    ProofRow,
)
from gitlab_nightshift.system.file_names import open_short_folder, path_exists
from gitlab_nightshift.system.processes import list_ancestors

UNUSED_IPV4, UNUSED_IPV6 = "192.0.2.1", "2001:db8::1"
"""Addresses that belong to nobody: for documentation (RFC 5737, RFC 3849)."""
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
"""Family, type and protocol of sockets that reach the kernel or the host, or bypass the proxy
(``linux/socket.h``, ``linux/in.h``)."""

ListFiles = Callable[[], Collection[str]]


@dataclass(frozen=True)
class ProbeTargets:
    """The real targets of attempts. ``secrets``: files and folders that no agent may read (the
    hidden ``.git/config`` and its includes, ``<project>.tmp``, files in HOME). ``outside``: folders
    in which no file may appear. ``named``: folders that agents may write and the job's variables
    name. ``list_setting_files`` lists the files from which git reads this machine's settings."""

    secrets: tuple[Path, ...] = ()
    outside: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    list_setting_files: ListFiles | None = None


@dataclass(frozen=True)
class ProbeSet:
    """Attempts, and the ``rows`` of the proof to which they belong. ``written`` are the files that
    they try to make, which must not exist afterwards (both by the attempts' names). A daemon that
    outlives the bead holds ``lock``."""

    lock: Path
    rows: dict[str, ProofRow] = field(default_factory=dict)
    attempts: list[Probe] = field(default_factory=list)
    written: dict[str, Path] = field(default_factory=dict)

    def add(self, row: ProofRow, name: str, verb: str, *arguments: str | int) -> None:
        """Add an attempt."""
        self.rows[name] = row
        self.attempts.append(Probe(name, verb, arguments))


def gather_probes(
    confinement: Confinement, targets: ProbeTargets, stack: contextlib.ExitStack
) -> ProbeSet:
    """Plant the canaries, start the services, and list all attempts. Files and services are removed
    when ``stack`` closes."""
    probes = ProbeSet(confinement.writable[-1] / f".proof-{secrets.token_hex(8)}")
    _add_process_probes(probes)
    _add_file_probes(probes, targets, confinement, stack)
    _add_network_probes(probes, confinement, stack)
    _add_privilege_probes(probes)
    probes.add(OUTLIVING, "outlive the bead", "outlive", str(probes.lock))
    stack.callback(_remove, [probes.lock])
    return probes


def _add_process_probes(probes: ProbeSet) -> None:
    address = id(probes)  # of mapped memory in this process (CPython: id())
    for pid, started in list_ancestors():
        process = "this process" if pid == os.getpid() else f"ancestor {pid}"
        probes.add(ENVIRONMENTS, f"read the environment of {process}", "environment", pid, started)
        probes.add(MEMORY, f"open the memory of {process}", "memory", pid, started)
        probes.add(MEMORY, f"list the descriptors of {process}", "descriptors", pid, started)
        probes.add(SECRET_FILES, f"use the root of {process}", "folder", pid, started, "root")
        probes.add(MEMORY, f"take a descriptor of {process}", "descriptor_of", pid, started)
        probes.add(SIGNALS, f"signal {process}", "signal", pid, started)
        if pid == os.getpid():
            probes.add(MEMORY, "read memory of this process", "vm_read", pid, started, address)
            probes.add(MEMORY, "ptrace this process", "ptrace", pid, started)


def _add_file_probes(
    probes: ProbeSet, targets: ProbeTargets, confinement: Confinement, stack: contextlib.ExitStack
) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nightshift-proof-")))
    _plant(probes, folder)
    private = filter(path_exists, map(Path, PRIVATE_FILES))
    for path in (*targets.secrets, *private):
        probes.add(SECRET_FILES, f"read {path}", *_choose_read_probe(path, confinement))
    for name in SYSTEM_FILES:
        probes.add(WRITING, f"write to {name}", "open_to_write", name)
    for outside in (*targets.outside, folder):
        name, path = f"write into {outside}", outside / f".proof-{secrets.token_hex(8)}"
        probes.written[name] = path
        probes.add(WRITING, name, "write", str(path))
    stack.callback(_remove, list(probes.written.values()))


def _choose_read_probe(
    path: Path, confinement: Confinement
) -> tuple[str, str | int, *tuple[int, ...]]:
    """The verb of an attempt to read a path, and its arguments."""
    # Over a mount's target another file may be read: the inode shows if it is the real one.
    if any(path.is_relative_to(mount.target) for mount in confinement.mounts):
        status = path.stat()
        return "same", str(path), status.st_dev, status.st_ino
    return "list" if path.is_dir() else "read", str(path)


def _plant(probes: ProbeSet, folder: Path) -> None:
    """Plant a canary that only this user may read, and one that everybody may."""
    for name, row, mode in (("private", SECRET_FILES, 0o700), ("public", OTHER_FILES, 0o755)):
        inner = folder / name
        inner.mkdir(mode)
        (inner / "canary").write_text("canary")
        (inner / "canary").chmod(mode & 0o666)
        probes.add(row, f"read a {name} file elsewhere", "read", str(inner / "canary"))
    _add_change_probes(probes, inner / "canary")
    folder.chmod(0o711)


def _add_change_probes(probes: ProbeSet, canary: Path) -> None:
    """Add the changes that a file's owner can make without opening it."""
    probes.add(FILE_MODES, "change the mode of a file elsewhere", "change_mode", str(canary))
    probes.add(FILE_MODES, "change it by a descriptor", "change_mode_held", str(canary))
    probes.add(FILE_MODES, "change the times of a file elsewhere", "change_times", str(canary))
    probes.add(FILE_MODES, "change the owner of a file elsewhere", "change_owner", str(canary))
    with contextlib.suppress(OSError):  # the file system has no extended attributes
        os.setxattr(canary, "user.before", b"x")
        probes.add(
            FILE_MODES, "give a file elsewhere an attribute", "change_attribute", str(canary)
        )


def _add_network_probes(
    probes: ProbeSet, confinement: Confinement, stack: contextlib.ExitStack
) -> None:
    other = stack.enter_context(open_tcp_listener())
    port = other.getsockname()[1]
    stack.enter_context(open_greeter(other))
    probes.add(SERVICES, "reach a service on loopback", "connect", "127.0.0.1", port)
    probes.add(SERVICES, "reach it by TCP fast open", "fast_open", "127.0.0.1", port)
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    probes.add(SERVICES, "send a datagram", "datagram", "127.0.0.1", udp.getsockname()[1])
    if own_address := _find_own_address():
        listener = stack.enter_context(open_tcp_listener(own_address))
        probes.add(
            SERVICES, f"reach {own_address}", "connect", own_address, listener.getsockname()[1]
        )
    probes.add(DIRECT_NETWORK, "connect to the network", "connect", UNUSED_IPV4, 443)
    probes.add(DIRECT_NETWORK, "connect by IPv6", "connect", UNUSED_IPV6, 443)
    probes.add(DIRECT_NETWORK, "send a datagram to the network", "datagram", UNUSED_IPV4, 53)
    for name, (family, kind, protocol) in SOCKETS.items():
        probes.add(DIRECT_NETWORK, f"make a {name} socket", "socket", family, kind, protocol)
    _add_unix_probes(probes, stack)
    for service in confinement.services:
        probes.add(GATEWAY, f"connect to port {service.port}", "connect", "127.0.0.1", service.port)


def _add_unix_probes(probes: ProbeSet, stack: contextlib.ExitStack) -> None:
    folder = stack.enter_context(open_short_folder(Path(tempfile.gettempdir())))
    folder.chmod(0o711)  # to connect, a user has to reach the socket (unix(7))
    name = f"nightshift-proof-{secrets.token_hex(8)}"
    stack.enter_context(open_unix_listener(folder / "socket"))
    stack.enter_context(open_unix_listener(f"\0{name}"))
    probes.add(OTHER_SOCKETS, "connect to an abstract socket", "unix", f"@{name}")
    probes.add(OTHER_SOCKETS, "connect to a socket file", "unix", str(folder / "socket"))


def _find_own_address() -> str:
    """This machine's own address in its network, "" if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, contextlib.suppress(OSError):
        udp.connect((UNUSED_IPV4, 53))  # sends nothing, but picks the route and so the address
        return str(udp.getsockname()[0])
    return ""


def _add_privilege_probes(probes: ProbeSet) -> None:
    probes.add(RIGHTS, "hold capabilities", "privileges")
    probes.add(RIGHTS, "inherit descriptors", "inherited")
    probes.add(RIGHTS, "use keyrings", "keyring")
    probes.add(RIGHTS, "make a user namespace", "namespace")


def _remove(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
