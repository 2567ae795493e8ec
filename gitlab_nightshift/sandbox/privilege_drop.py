"""A process of this program that is about to read what an agent wrote gives up what it does not
need: files but those named, the network, capabilities, other processes, memory and time."""

import resource
from collections.abc import Sequence

from gitlab_nightshift.sandbox.inside import landlock, privileges, seccomp
from gitlab_nightshift.sandbox.inside.syscall_numbers import AUDIT_ARCH

CAN_TRUNCATE, CAN_SCOPE = 3, 6
"""The Landlock ABIs from which ``truncate`` and signals are confined."""
LARGEST_FILE = 1024**3


def set_limits(memory: int, cpu_s: int) -> None:
    """Bound this process's data (bytes) and time (CPU seconds), and those of each descendant."""
    for what, most in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def renounce(readable: Sequence[str], writable: Sequence[str]) -> tuple[str, ...]:
    """Confine this process and its descendants for good; what the kernel cannot hold is returned:
    ``files``, ``network``.

    Files are held by Landlock; sockets, tracing and namespaces by a system call filter. Without
    Landlock no capability is left; with it the one to read other users' files, which it bounds.
    Raises OSError where a step fails that the kernel should know.
    """
    version = min(landlock.read_abi(), landlock.LATEST)
    privileges.drop_capabilities(keep=privileges.DAC_READ_SEARCH if version else 0)
    privileges.forbid_new_privileges()
    if version:
        paths = landlock.LandlockPaths(
            list(readable), [], list(writable), ["/dev/null", "/dev/urandom"]
        )
        landlock.restrict(version, paths, [])
    if AUDIT_ARCH:
        form = seccomp.FilterOptions(
            notify=False,
            own_network=False,
            guard_signals=version < CAN_SCOPE,
            guard_length=version < CAN_TRUNCATE,
            judge_attributes=False,
            sockets=False,
        )
        seccomp.install(form)
    return ("files",) * (not version) + ("network",) * (not AUDIT_ARCH)
