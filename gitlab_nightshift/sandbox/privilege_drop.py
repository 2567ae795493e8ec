"""Drops all rights of a process of this program but those that its row (``process_table.py``)
names: files, the network, capabilities, other processes, memory and time.
"""

import os
import resource
import time
from dataclasses import dataclass

from gitlab_nightshift.sandbox.inside import landlock, privileges, seccomp
from gitlab_nightshift.sandbox.inside.syscalls import AUDIT_ARCH

LARGEST_FILE = 1024**3
"""Bytes."""
THREAD_CHECKS, PAUSE_S = 1_000, 0.005
"""Five seconds in all: on a busy machine a joined thread takes a while to disappear."""


@dataclass(frozen=True)
class ProcessRights:
    """The rights that a process keeps: paths to read, list and write (absolute, with all below),
    the network, listening sockets (``serves``), child processes, changes of files' modes, owners,
    times and attributes (``changes_attributes``). ``memory`` (bytes of data) and ``cpu_s`` limit it
    and each descendant (0: no limit). If there are ``ports``, the network is TCP to these only.
    """

    readable: tuple[str, ...]
    listable: tuple[str, ...]
    writable: tuple[str, ...]
    uses_network: bool
    serves: bool
    starts_processes: bool
    changes_attributes: bool
    memory: int
    cpu_s: int
    ports: tuple[int, ...] = ()


def restrict_to(rights: ProcessRights) -> None:
    """Confine this process, which must have one thread, and its descendants for good.

    Landlock, if the kernel has it, confines files; a system call filter confines sockets, other
    processes, attributes and namespaces. Without Landlock no capability is kept; with it, only
    those for files, which it bounds. Raises OSError if a step fails that the kernel should support.
    """
    if not is_single_threaded():
        raise RuntimeError("threads are running that cannot be confined")
    _set_limits(rights.memory, rights.cpu_s)
    abi = landlock.find_usable_abi()
    privileges.join_own_keyring()
    keep_mask = 0
    if abi:  # Landlock bounds them: to read other users' files, and to change their owners
        keep_mask = privileges.DAC_READ_SEARCH_MASK
        keep_mask |= privileges.OWNERS_MASK if rights.changes_attributes else 0
    privileges.drop_capabilities(keep_mask)
    # Landlock and seccomp need no_new_privs or CAP_SYS_ADMIN (landlock(7), seccomp(2)).
    privileges.forbid_new_privileges()
    if abi:
        _limit_files(rights, abi)
    if AUDIT_ARCH:
        seccomp.install(seccomp.build_filter(_build_filter_options(rights, abi)), listening=False)


def is_single_threaded() -> bool:
    """True if this process has one thread. Waits a while for another one to end."""
    # The kernel still lists a joined thread for a moment: only Python's part of it has ended.
    for _ in range(THREAD_CHECKS):
        if len(os.listdir("/proc/self/task")) == 1:  # noqa: PTH208 - iterdir would make a Path of each
            return True
        time.sleep(PAUSE_S)
    return False


def _limit_files(rights: ProcessRights, abi: int) -> None:
    paths = landlock.LandlockPaths(
        list(rights.readable),
        list(rights.listable),
        list(rights.writable),
        ["/dev/null", "/dev/urandom"],
    )
    # None: any port; []: no network.
    ports = (list(rights.ports) or None) if rights.uses_network else []
    landlock.restrict(abi, paths, ports, binds=rights.serves)


def _build_filter_options(rights: ProcessRights, abi: int) -> seccomp.FilterOptions:
    return seccomp.FilterOptions(
        notify=False,
        own_network=False,
        guard_signals=abi < landlock.CAN_SCOPE,
        deny_truncate=abi < landlock.CAN_TRUNCATE,
        notify_attributes=False,
        sockets=rights.uses_network,
        own_process=True,
        datagrams=not rights.ports,
        lone_pid=0 if rights.starts_processes else os.getpid(),
        serves=rights.serves,
        deny_attributes=not rights.changes_attributes,
    )


def _set_limits(memory: int, cpu_s: int) -> None:
    for limit, value in (
        (resource.RLIMIT_DATA, memory),  # heap and private mappings (Linux 4.7, getrlimit(2))
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),  # a core file would contain secrets
    ):
        if value or limit == resource.RLIMIT_CORE:
            hard = resource.getrlimit(limit)[1]  # only root may raise it (setrlimit(2))
            new = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (new, new))
