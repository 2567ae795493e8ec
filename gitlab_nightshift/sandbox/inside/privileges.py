"""System calls by which a process gives up its user, capabilities, core dumps and any way to gain
new privileges."""
# ruff: noqa: PTH123

import os
import struct

from .syscalls import PR_SET_NO_NEW_PRIVS, call_prctl, make_syscall

# linux/prctl.h
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_SECUREBITS = 23, 24, 28
PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL = 47, 4
NO_ROOT_LOCKED = 0b11 | 0b1100
"""SECBIT_NOROOT and SECBIT_NO_SETUID_FIXUP, both locked: uid 0 means nothing."""
# linux/capability.h; bit N of a mask is capability number N
CAPABILITY_VERSION_3 = 0x20080522
CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL = 0, 1, 2, 3, 4, 5
SETGID, SETUID, SETPCAP, SETFCAP = 6, 7, 8, 31
DAC_READ_SEARCH_MASK = 1 << DAC_READ_SEARCH
OWNERS_MASK = 1 << CHOWN | 1 << DAC_OVERRIDE | 1 << FOWNER | 1 << FSETID
JOIN_SESSION_KEYRING = 1
EPERM, EINVAL, ENOSYS = 1, 22, 38


def disable_core_dumps() -> None:
    """Write no core file: it would contain what the process has read."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def become_user(uid: int, gid: int) -> None:
    """Become another user for good, without supplementary groups. Raises OSError."""
    # The user last: only root can change groups.
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise PermissionError("the user has not changed")


def lock_root_out() -> None:
    """Empty the bounding set and make uid 0 powerless, if this process has the right to. If not,
    only no_new_privs keeps capabilities from coming back."""
    # Ambient capabilities would survive execve (capabilities(7)).
    call_prctl(PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL)
    for capability in range(64):
        try:
            if call_prctl(PR_CAPBSET_READ, capability):
                call_prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno in (EINVAL, EPERM):  # past the last capability; no right to change it
                break
            raise
    try:
        call_prctl(PR_SET_SECUREBITS, NO_ROOT_LOCKED)
    except OSError as error:
        if error.errno != EPERM:
            raise


def drop_capabilities(keep_mask: int = 0) -> None:
    """Drop every capability that is not in ``keep_mask`` (numbers below 32), and check that
    they are gone. Raises OSError."""
    keep = keep_mask & _read_capability_sets()[b"CapPrm"]
    sets = struct.pack("=IIIIII", keep, keep, 0, 0, 0, 0)
    # Pid 0: this thread. The third mask, of inheritable ones, is always empty (capset(2)).
    make_syscall("capset", struct.pack("=Ii", CAPABILITY_VERSION_3, 0), sets)
    remaining = _read_capability_sets()
    for name, allowed in ((b"CapPrm", keep), (b"CapEff", keep), (b"CapAmb", 0)):
        if remaining[name] & ~allowed:
            raise PermissionError(f"{name.decode()} still has capabilities that were to be dropped")


def keep_capabilities(*kept: int) -> None:
    """Keep only these capabilities (numbers below 32), in the bounding set too, if this process may
    change that. Raises OSError."""
    call_prctl(PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL)
    try:
        for number in range(64):
            if number not in kept and call_prctl(PR_CAPBSET_READ, number):
                call_prctl(PR_CAPBSET_DROP, number)
    except OSError as error:
        if error.errno not in (EINVAL, EPERM):  # past the last capability; no right to change it
            raise
    drop_capabilities(sum(1 << number for number in kept))


def _read_capability_sets() -> dict[bytes, int]:
    with open("/proc/self/status", "rb") as status:
        lines = [line.split() for line in status.read().split(b"\n") if line.startswith(b"Cap")]
    return {name.rstrip(b":"): int(value, 16) for name, value in lines}


def forbid_new_privileges() -> None:
    """From here on, setuid programs gain nothing. Raises OSError."""
    call_prctl(PR_SET_NO_NEW_PRIVS, 1)


def join_own_keyring() -> None:
    """Join a new session keyring, instead of the one shared with the job's shell.

    If the call is forbidden (Docker), keyrings cannot be read either; later the seccomp filter
    forbids these calls in any case.
    """
    try:
        make_syscall("keyctl", JOIN_SESSION_KEYRING, None)
    except OSError as error:
        if error.errno not in (EPERM, ENOSYS):
            raise
