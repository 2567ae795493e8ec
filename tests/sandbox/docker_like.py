"""Run a command as `docker run` does: with the refusals of its default system call profile, and its
14 capabilities. Needs root; no image, no network or mount namespace.

    python docker_like.py [--user UID] -- COMMAND...
"""

import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gitlab_nightshift.sandbox.inside.privileges import CAPABILITY_VERSION_3, PR_CAPBSET_DROP
from gitlab_nightshift.sandbox.inside.seccomp import (
    ALLOW,
    ANY_BIT,
    ARCH_AT,
    EQUAL,
    KILL,
    NUMBER_AT,
    answer,
    assemble,
    branch_unless,
    branch_when,
    branch_when_in,
    fail,
    load,
    load_argument,
)
from gitlab_nightshift.sandbox.inside.syscalls import (
    AUDIT_ARCH,
    NUMBERS,
    Buffer,
    call_prctl,
    make_syscall,
)

EPERM, ENOSYS = 1, 38
# chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot
# mknod audit_write setfcap
KEPT = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
LAST_CAPABILITY = 40
REFUSED = (
    *("acct", "add_key", "bpf", "create_module", "delete_module", "fanotify_init", "finit_module"),
    *("fsconfig", "fsmount", "fsopen", "fspick", "init_module", "io_uring_setup"),
    *("io_uring_enter", "io_uring_register", "iopl", "ioperm", "kcmp", "kexec_file_load"),
    *("kexec_load", "keyctl", "lookup_dcookie", "mount", "mount_setattr", "move_mount"),
    *("nfsservctl", "open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd"),
    *("pivot_root", "process_madvise", "quotactl", "quotactl_fd", "reboot", "request_key"),
    *("sethostname", "setdomainname", "setns", "settimeofday", "clock_settime", "swapoff"),
    *("swapon", "_sysctl", "syslog", "umount2", "unshare", "uselib", "userfaultfd", "vhangup"),
)
NEW_NAMESPACES = 0x7E020000
AF_VSOCK = 40


def profile() -> bytes:
    """The refusals as a filter."""
    flags = [load_argument(0), *branch_when(ANY_BIT, NEW_NAMESPACES, fail(EPERM)), *answer(ALLOW)]
    family = [load_argument(0), *branch_when(EQUAL, AF_VSOCK, fail(EPERM)), *answer(ALLOW)]
    numbers = [NUMBERS[name] for name in REFUSED if name in NUMBERS]
    return assemble(
        [load(ARCH_AT), *branch_unless(EQUAL, AUDIT_ARCH, answer(KILL)), load(NUMBER_AT)],
        branch_when_in(numbers, fail(EPERM)),
        branch_when(EQUAL, NUMBERS["clone3"], fail(ENOSYS)),
        branch_when(EQUAL, NUMBERS["clone"], flags),
        branch_when(EQUAL, NUMBERS["socket"], family),
    )


def drop_capabilities() -> None:
    """Keep only Docker's 14 capabilities, in all sets."""
    for capability in range(LAST_CAPABILITY + 1):
        if capability not in KEPT:
            call_prctl(PR_CAPBSET_DROP, capability)
    low = sum(1 << capability for capability in KEPT)
    sets = struct.pack("=IIIIII", low, low, 0, 0, 0, 0)
    make_syscall("capset", struct.pack("=Ii", CAPABILITY_VERSION_3, 0), sets)


def confine() -> None:
    """Confine this process as Docker does."""
    data = profile()
    filters = Buffer(data)
    # as root and without no_new_privs, as Docker does it: setuid programs still work
    make_syscall("seccomp", 1, 0, struct.pack("=HxxxxxxQ", len(data) // 8, filters.address))
    drop_capabilities()


def main(arguments: list[str]) -> None:
    """Confine this process, then become the command."""
    user = int(arguments[1]) if arguments[0] == "--user" else None
    command = arguments[arguments.index("--") + 1 :]
    confine()
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
