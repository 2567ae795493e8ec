"""System calls: their numbers, the lists that a filter (:mod:`.seccomp`) refuses or checks, and
functions for those that Python does not offer.

x86_64: ``arch/x86/entry/syscalls/syscall_64.tbl``; aarch64: ``include/uapi/asm-generic/unistd.h``.
"""

import _signal  # type: ignore[import-not-found]
import ctypes
import os

MACHINE = os.uname().machine

_X86_64 = {
    **{"ioctl": 16, "shmget": 29, "shmat": 30, "shmctl": 31, "socket": 41, "connect": 42},
    **{"sendto": 44, "sendmsg": 46, "bind": 49, "listen": 50, "socketpair": 53, "setsockopt": 54},
    **{"clone": 56, "kill": 62, "semget": 64, "semop": 65, "semctl": 66, "msgget": 68},
    **{"msgsnd": 69, "msgrcv": 70, "msgctl": 71, "fcntl": 72, "ptrace": 101, "syslog": 103},
    **{"capset": 126, "rt_sigqueueinfo": 129, "uselib": 134, "personality": 135, "vhangup": 153},
    **{"modify_ldt": 154, "pivot_root": 155, "_sysctl": 156, "chroot": 161, "acct": 163},
    **{"settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168},
    **{"reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173},
    **{"create_module": 174, "init_module": 175, "delete_module": 176, "quotactl": 179},
    **{"nfsservctl": 180, "tkill": 200, "lookup_dcookie": 212, "semtimedop": 220},
    **{"clock_settime": 227, "tgkill": 234, "mq_open": 240, "kexec_load": 246, "add_key": 248},
    **{"request_key": 249, "keyctl": 250, "unshare": 272, "rt_tgsigqueueinfo": 297},
    **{"perf_event_open": 298, "fanotify_init": 300, "fanotify_mark": 301, "prlimit64": 302},
    **{"truncate": 76, "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94},
    **{"utime": 132, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197},
    **{"lremovexattr": 198, "fremovexattr": 199, "utimes": 235, "fchownat": 260},
    **{"futimesat": 261, "fchmodat": 268, "utimensat": 280},
    **{"open_by_handle_at": 304, "sendmmsg": 307, "setns": 308, "process_vm_readv": 310},
    **{"process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "seccomp": 317},
    **{"kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "fork": 57, "vfork": 58},
    **{"execve": 59, "execveat": 322, "setpriority": 141, "sched_setparam": 142},
    **{"sched_setscheduler": 144, "sched_setaffinity": 203, "ioprio_set": 251},
    **{"migrate_pages": 256, "move_pages": 279, "sched_setattr": 314},
}
_AARCH64 = {
    **{"lookup_dcookie": 18, "fcntl": 25, "ioctl": 29, "umount2": 39, "mount": 40},
    **{"pivot_root": 41, "nfsservctl": 42, "chroot": 51, "vhangup": 58, "quotactl": 60},
    **{"acct": 89, "capset": 91, "personality": 92, "unshare": 97, "kexec_load": 104},
    **{"init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116},
    **{"ptrace": 117, "kill": 129, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138},
    **{"reboot": 142, "sethostname": 161, "setdomainname": 162, "settimeofday": 170},
    **{"mq_open": 180, "msgget": 186, "msgctl": 187, "msgrcv": 188, "msgsnd": 189},
    **{"semget": 190, "semctl": 191, "semtimedop": 192, "semop": 193, "shmget": 194},
    **{"shmctl": 195, "shmat": 196, "socket": 198, "socketpair": 199, "bind": 200},
    **{"listen": 201, "connect": 203, "sendto": 206, "setsockopt": 208, "sendmsg": 211},
    **{"add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "swapon": 224},
    **{"swapoff": 225, "rt_tgsigqueueinfo": 240, "perf_event_open": 241, "fanotify_init": 262},
    **{"truncate": 45, "prlimit64": 261, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7},
    **{"removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "fchmod": 52, "fchmodat": 53},
    **{"fchownat": 54, "fchown": 55, "utimensat": 88},
    **{"fanotify_mark": 263, "open_by_handle_at": 265, "setns": 268, "sendmmsg": 269},
    **{"process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273},
    **{"seccomp": 277, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294},
    **{"execve": 221, "execveat": 281, "setpriority": 140, "sched_setparam": 118},
    **{"sched_setscheduler": 119, "sched_setaffinity": 122, "ioprio_set": 30},
    **{"migrate_pages": 238, "move_pages": 239, "sched_setattr": 274},
}
_BOTH = {
    **{"pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426},
    **{"io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430},
    **{"fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435},
    **{"pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443},
    **{"landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446},
    **{"openat2": 437, "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466},
    **{"open_tree_attr": 467, "file_setattr": 469},
}
LAST_KNOWN = 469
"""``file_setattr``, Linux 6.17. The filter refuses newer calls, which nobody has reviewed yet."""

AUDIT_ARCH, NUMBERS = {
    "x86_64": (0xC000003E, _X86_64 | _BOTH),
    "aarch64": (0xC00000B7, _AARCH64 | _BOTH),
}.get(MACHINE, (0, _BOTH))
"""AUDIT_ARCH_* of this machine's native ABI (0: not supported), and its system calls."""

# --- by purpose -----------------------------------------------------------------------------------


CLOSED = (
    # other processes' memory and descriptors
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),
    # keyrings: a session's is shared by all its processes (keyrings(7))
    *("add_key", "request_key", "keyctl"),
    # large parts of the kernel that no build needs
    *("bpf", "userfaultfd", "perf_event_open", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "fanotify_init", "fanotify_mark", "lookup_dcookie", "quotactl"),
    *("quotactl_fd", "nfsservctl", "uselib", "_sysctl", "modify_ldt", "iopl", "ioperm", "vhangup"),
    # the machine
    *("open_by_handle_at", "swapon", "swapoff"),
    *("init_module", "finit_module", "delete_module", "create_module", "kexec_load"),
    *("kexec_file_load", "reboot", "acct", "syslog"),
    *("settimeofday", "clock_settime"),
)
MOUNTING = (
    *("sethostname", "setdomainname"),
    *("setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr"),
    *("move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
)
"""Calls that set up the namespaces of a sandbox."""
DENIED = (*CLOSED, *MOUNTING)
SYSV = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open"),
)
"""System V IPC: all processes of the user share it, unless in an IPC namespace, and it outlives a
bead."""
SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
ATTRIBUTES = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr"),
    *("removexattr", "lremovexattr", "fremovexattr"),
)
"""Calls for changes that a file's owner may make anywhere: Landlock has no right for them."""
NEWER_ATTRIBUTES = ("setxattrat", "removexattrat", "file_setattr")
"""Calls for such changes since Linux 6.13 and 6.17; programs fall back to the older ones."""
NEW_PROCESSES = ("fork", "vfork", "execve", "execveat")
OTHERS_SCHEDULING = (
    *("setpriority", "ioprio_set", "sched_setparam", "sched_setscheduler", "sched_setaffinity"),
    *("sched_setattr", "migrate_pages", "move_pages"),
)
"""Calls that can slow down other processes of the same user."""


# --- calls for which Python has no function -------------------------------------------------------


signals = _signal
"""The signal module without its enums, which cost 2 ms."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


def check_result(result: int, what: str) -> int:
    """Return a call's result. Raises OSError if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def make_syscall(name: str, *arguments: int | bytes | None) -> int:
    """Make a call by its name; bytes are passed as a pointer, None as NULL. Raises OSError."""
    # ctypes passes an int as 32 bits: syscall(2) would read garbage in the upper half.
    wide = [ctypes.c_ulong(a & (2**64 - 1)) if isinstance(a, int) else a for a in arguments]
    number = NUMBERS.get(name)
    if number is None:
        raise OSError(38, f"{name}: unknown on this machine")
    return check_result(_libc.syscall(ctypes.c_long(number), *wide), name)


def call_prctl(option: int, second: int = 0, third: int = 0) -> int:
    """``prctl(2)``. Raises OSError."""
    # Some options require the unused arguments to be 0 (prctl(2)).
    wide = [ctypes.c_ulong(value) for value in (second, third, 0, 0)]
    return check_result(_libc.prctl(ctypes.c_int(option), *wide), f"prctl {option}")


class Buffer:
    """Bytes at a fixed address, valid as long as this object lives."""

    def __init__(self, data: bytes) -> None:
        self._array = ctypes.create_string_buffer(data, len(data))
        self.address = ctypes.addressof(self._array)


def connect_raw(fd: int, address: bytes) -> int:
    """``connect(2)`` with exactly these bytes as address; the error number, 0 for success."""
    return 0 if _libc.connect(fd, address, len(address)) == 0 else ctypes.get_errno()


def bind_raw(fd: int, address: bytes) -> int:
    """``bind(2)`` with exactly these bytes as address; the error number, 0 for success."""
    return 0 if _libc.bind(fd, address, len(address)) == 0 else ctypes.get_errno()


def mount(kind: bytes, target: bytes, flags: int) -> None:
    """Mount a virtual file system such as ``proc``. Raises OSError."""
    check_result(_libc.mount(kind, target, kind, ctypes.c_ulong(flags), None), "mount")
