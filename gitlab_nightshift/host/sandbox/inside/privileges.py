"""A process gives up what it could gain: user, capabilities, new privileges, core dumps."""
# ruff: noqa: PTH123

import os
import struct

from .kernel import PR_SET_NO_NEW_PRIVS, prctl, syscall

PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_SECUREBITS = 23, 24, 28
PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL = 47, 4
NO_ROOT_LOCKED = 0b11 | 0b1100
"""SECBIT_NOROOT and SECBIT_NO_SETUID_FIXUP, both locked: uid 0 means nothing."""
CAPABILITY_VERSION_3 = 0x20080522
JOIN_SESSION_KEYRING = 1
EPERM, EINVAL, ENOSYS = 1, 22, 38


def no_core_dumps() -> None:
    """A core file would hold what the process read."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def become(uid: int, gid: int) -> None:
    """Become another user for good, without supplementary groups. Raises OSError."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise PermissionError("the user has not changed")


def lock_root_out() -> None:
    """Empty the bounding set and make uid 0 powerless, where this process has the right to.

    Where it has not, no_new_privs alone keeps capabilities from coming back.
    """
    prctl(PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL)
    for capability in range(64):
        try:
            if prctl(PR_CAPBSET_READ, capability):
                prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno in (EINVAL, EPERM):  # past the last one; not ours to change
                break
            raise
    try:
        prctl(PR_SET_SECUREBITS, NO_ROOT_LOCKED)
    except OSError as error:
        if error.errno != EPERM:
            raise


def drop_capabilities() -> None:
    """Drop every capability and see that they are gone. Raises OSError."""
    syscall("capset", struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24))
    with open("/proc/self/status", "rb") as status:
        lines = status.read().split(b"\n")
    for name in (b"CapPrm", b"CapEff", b"CapAmb"):
        if not any(line.startswith(name) and int(line.split()[1], 16) == 0 for line in lines):
            raise PermissionError(f"{name.decode()} is not empty")


def no_new_privileges() -> None:
    """From here on no setuid program gains anything. Raises OSError."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def own_keyring() -> None:
    """A session keyring of its own, instead of the one that the job's shell shares.

    Where the call itself is forbidden (Docker) nothing can be read from a keyring either, and the
    filter forbids it all the same.
    """
    try:
        syscall("keyctl", JOIN_SESSION_KEYRING, None)
    except OSError as error:
        if error.errno not in (EPERM, ENOSYS):
            raise
