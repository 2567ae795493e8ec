"""A process of this program gives up what its row of the table (``process_table.py``) does not
name: files, the network, capabilities, other processes, memory and time."""

import os
import resource
import time
from dataclasses import dataclass

from gitlab_nightshift.sandbox.inside import landlock, privileges, seccomp
from gitlab_nightshift.sandbox.inside.syscall_numbers import AUDIT_ARCH

CAN_TRUNCATE, CAN_SCOPE = 3, 6
"""The Landlock ABIs from which ``truncate`` and signals are confined."""
LARGEST_FILE = 1024**3
LOOKS, PAUSE_S = 1_000, 0.005


@dataclass(frozen=True)
class ProcessRights:
    """What a process keeps: files to read, folders to list and folders to write (absolute paths,
    with all below), the network, sockets to listen on, children of its own, the right to change
    modes, owners, times and attributes of files, and limits for itself and each descendant (bytes
    of data, CPU seconds; 0: none). Of the network, TCP to ``ports`` lone_pid, where there are some.
    """

    readable: tuple[str, ...]
    listable: tuple[str, ...]
    writable: tuple[str, ...]
    network: bool
    serves: bool
    children: bool
    attributes: bool
    memory: int
    cpu_s: int
    ports: tuple[int, ...] = ()


def renounce(rights: ProcessRights) -> None:
    """Confine this process, which has one thread, and its descendants for good.

    Files are held by Landlock, where the kernel has it; sockets, other processes, attributes and
    namespaces by a system call filter. Without Landlock no capability is left; with it the one to
    read other users' files, which it bounds. Raises OSError where a step fails that the kernel
    should know.
    """
    if not is_alone():
        raise RuntimeError("threads are running that cannot be confined")
    _set_limits(rights.memory, rights.cpu_s)
    version = min(landlock.read_abi(), landlock.LATEST)
    privileges.join_own_keyring()
    privileges.drop_capabilities(keep=_find_kept(rights) if version else 0)
    privileges.forbid_new_privileges()
    if version:
        _limit_files(rights, version)
    if AUDIT_ARCH:
        seccomp.install(
            seccomp.build_filter(_build_filter_options(rights, version)), listening=False
        )


def _find_kept(rights: ProcessRights) -> int:
    """What Landlock bounds: to read other users' files, and to write them like one's own."""
    return privileges.DAC_READ_SEARCH | (privileges.OF_OWNERS if rights.attributes else 0)


def is_alone() -> bool:
    """Whether this process has one thread. One that was joined is known to the kernel a moment
    longer: Python's part of it has ended then, not all of it."""
    for _ in range(LOOKS):
        if len(os.listdir("/proc/self/task")) == 1:  # noqa: PTH208 - no object for each
            return True
        time.sleep(PAUSE_S)
    return False


def _limit_files(rights: ProcessRights, version: int) -> None:
    paths = landlock.LandlockPaths(
        list(rights.readable),
        list(rights.listable),
        list(rights.writable),
        ["/dev/null", "/dev/urandom"],
    )
    ports = list(rights.ports) or None if rights.network else []
    landlock.restrict(version, paths, ports, binds=rights.serves)


def _build_filter_options(rights: ProcessRights, version: int) -> seccomp.FilterOptions:
    return seccomp.FilterOptions(
        notify=False,
        own_network=False,
        guard_signals=version < CAN_SCOPE,
        deny_truncate=version < CAN_TRUNCATE,
        notify_attributes=False,
        sockets=rights.network,
        own_process=True,
        datagrams=not rights.ports,
        lone_pid=0 if rights.children else os.getpid(),
        serves=rights.serves,
        deny_attributes=not rights.attributes,
    )


def _set_limits(memory: int, cpu_s: int) -> None:
    for what, most in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        if most or what == resource.RLIMIT_CORE:
            hard = resource.getrlimit(what)[1]
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(what, (least, least))
