"""The system call filter: what a confined process may not even ask the kernel for.

Two forms of one program. Without ``notify`` sockets are ordinary; with it each socket, connect,
bind and listen is handed to the keeper (see :mod:`.egress`).
"""

import struct

from .bpf import (
    ALLOW,
    ANY_BIT,
    ARCH_AT,
    EQUAL,
    GREATER,
    KILL,
    NOTIFY,
    NUMBER_AT,
    Program,
    argument,
    assemble,
    fail,
    give,
    load,
    mask,
    unless,
    when,
    when_in,
)
from .kernel import Buffer, syscall
from .numbers import AUDIT_ARCH, LAST_KNOWN, NUMBERS

EPERM, EINVAL, ENOSYS, ENOPROTOOPT, EAFNOSUPPORT = 1, 22, 38, 92, 97
SET_MODE_FILTER = 1
NEW_LISTENER, WAIT_KILLABLE = 8, 32

DENIED = (
    # other processes' memory and descriptors
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),
    *("add_key", "request_key", "keyctl"),
    # large parts of the kernel that no build needs
    *("bpf", "userfaultfd", "perf_event_open", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "fanotify_init", "fanotify_mark", "lookup_dcookie", "quotactl"),
    *("quotactl_fd", "nfsservctl", "uselib", "_sysctl", "modify_ldt", "iopl", "ioperm", "vhangup"),
    # namespaces and mounts
    *("setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr"),
    *("move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    *("open_by_handle_at", "swapon", "swapoff"),
    # the machine
    *("init_module", "finit_module", "delete_module", "create_module", "kexec_load"),
    *("kexec_file_load", "reboot", "acct", "syslog", "sethostname", "setdomainname"),
    *("settimeofday", "clock_settime"),
)
SYSV = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open"),
)
"""Shared with every process of the user where there is no IPC namespace, and outlives a bead."""
SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")

NEW_NAMESPACES = 0x7E020080
"""All CLONE_NEW* flags; 0x80 is CLONE_NEWTIME for unshare, and part of the signal for clone."""
CLONE_NAMESPACES = NEW_NAMESPACES & ~0xFF
TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
F_SETOWN, F_SETOWN_EX = 8, 15
MSG_FASTOPEN = 0x20000000
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
STREAM, DATAGRAM, SEQPACKET, TYPE_BITS = 1, 2, 5, 0xF
TCP, UDP = 6, 17

OPTIONS = {
    # SOL_SOCKET: REUSEADDR TYPE ERROR BROADCAST SNDBUF RCVBUF KEEPALIVE OOBINLINE PRIORITY LINGER
    # REUSEPORT PASSCRED RCVLOWAT SNDLOWAT RCVTIMEO SNDTIMEO TIMESTAMP PASSSEC TIMESTAMPNS
    # TIMESTAMPING BUSY_POLL INCOMING_CPU ZEROCOPY, the 64-bit times; no device, mark or filter
    1: [
        *(2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 15, 16, 18, 19, 20, 21, 29, 34, 35, 37, 46, 49),
        *(60, 66, 67),
    ],
    # TCP: NODELAY MAXSEG CORK KEEPIDLE KEEPINTVL KEEPCNT SYNCNT LINGER2 DEFER_ACCEPT WINDOW_CLAMP
    # QUICKACK CONGESTION USER_TIMEOUT FASTOPEN (a server's) NOTSENT_LOWAT
    TCP: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 18, 23, 25],
    # IP: TOS TTL MTU_DISCOVER RECVERR BIND_ADDRESS_NO_PORT; no source route
    0: [1, 2, 10, 11, 24],
    # IPv6: UNICAST_HOPS MULTICAST_HOPS RECVERR V6ONLY RECVPKTINFO TCLASS; no routing header, no
    # flow label
    41: [16, 18, 25, 26, 49, 67],
}
"""Levels and options of ``setsockopt`` by name: some send an allowed address elsewhere."""


class Form:
    """Which form of the filter: see :func:`program`."""

    def __init__(
        self, *, notify: bool, own_network: bool, guard_signals: bool, guard_length: bool
    ) -> None:
        self.notify, self.own_network = notify, own_network
        self.guard_signals, self.guard_length = guard_signals, guard_length


def program(form: Form) -> bytes:
    """The filter's bytes.

    ``own_network``: there are namespaces, so UNIX sockets of all kinds and System V IPC are
    harmless. Without it and without ``notify`` no UNIX socket exists at all but as a pair: nobody
    could check where it goes. ``guard_signals``: Landlock does not keep signals from outsiders,
    so the keeper does, or at least none goes to everybody. ``guard_length``: Landlock does not
    see ``truncate``.
    """
    parts = [_abi(), _denied(form), _processes(), _terminal(form), _signals(form)]
    parts += [_socket(form), _socketpair(form), _sending(form), _options(), _addresses(form)]
    return assemble([x for part in parts for x in part] + give(ALLOW))


def install(form: Form) -> int | None:
    """Put the filter on this process; the listener's descriptor where there is one.

    Raises OSError: EBUSY where another program is listening already, EINVAL where the kernel is
    too old. Without WAIT_KILLABLE (Linux 5.19) a signal repeats the call that is being handled.
    """
    data = program(form)
    filters = Buffer(data)
    pointer = struct.pack("=HxxxxxxQ", len(data) // 8, filters.address)
    if not form.notify:
        syscall("seccomp", SET_MODE_FILTER, 0, pointer)
        return None
    try:
        return syscall("seccomp", SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE, pointer)
    except OSError as error:
        if error.errno != EINVAL:
            raise
    return syscall("seccomp", SET_MODE_FILTER, NEW_LISTENER, pointer)


def _on(name: str, body: Program) -> Program:
    return when(EQUAL, NUMBERS[name], body)


def _numbers(names: tuple[str, ...]) -> list[int]:
    return [NUMBERS[name] for name in names if name in NUMBERS]


def _abi() -> Program:
    """Another ABI (32 bit, x32) has other numbers: killed. A call that nobody knows: not there."""
    foreign = [load(ARCH_AT), *unless(EQUAL, AUDIT_ARCH, give(KILL))]
    return [*foreign, load(NUMBER_AT), *when(GREATER, LAST_KNOWN, fail(ENOSYS))]


def _denied(form: Form) -> Program:
    ipc = [] if form.own_network else when_in(_numbers(SYSV), fail(ENOSYS))
    length = _on("truncate", fail(EPERM)) if form.guard_length else []
    return when_in(_numbers(DENIED), fail(EPERM)) + ipc + length


def _processes() -> Program:
    personality = [argument(0), *when_in([0, 0xFFFFFFFF], give(ALLOW)), *fail(EPERM)]
    own_limits = [
        *[argument(0), *when(ANY_BIT, 0xFFFFFFFF, fail(EPERM))],
        *give(ALLOW),
    ]
    return [
        *_on("prlimit64", own_limits),  # another's limits decide whether it dies and dumps core
        *_on("clone3", fail(ENOSYS)),  # its flags cannot be seen; the C library falls back to clone
        *_on("clone", _unless_bits(0, CLONE_NAMESPACES)),
        *_on("unshare", _unless_bits(0, NEW_NAMESPACES)),
        *_on("personality", personality),
    ]


def _unless_bits(index: int, bits: int) -> Program:
    return [argument(index), *when(ANY_BIT, bits, fail(EPERM)), *give(ALLOW)]


def _terminal(form: Form) -> Program:
    requests = [TIOCSTI, TIOCLINUX, *((FIOSETOWN, SIOCSPGRP) if form.guard_signals else ())]
    return _on("ioctl", [argument(1), *when_in(requests, fail(EPERM)), *give(ALLOW)])


def _signals(form: Form) -> Program:
    if not form.guard_signals:
        return []
    owner = [argument(1), *when_in([F_SETOWN, F_SETOWN_EX], fail(EPERM)), *give(ALLOW)]
    others = _on("pidfd_send_signal", fail(EPERM)) + _on("fcntl", owner)
    if form.notify:
        return others + when_in(_numbers(SIGNALS), give(NOTIFY))
    everybody = [argument(0), *when(EQUAL, 0xFFFFFFFF, fail(EPERM)), *give(ALLOW)]
    return others + _on("kill", everybody)


def _socket(form: Form) -> Program:
    made = give(NOTIFY if form.notify else ALLOW)
    streams = [argument(1), mask(TYPE_BITS), *when_in([STREAM, SEQPACKET], made)]
    unix = give(ALLOW) if form.own_network else streams if form.notify else []
    refused = fail(EAFNOSUPPORT)
    tcp = [argument(2), *when_in([0, TCP], made), *refused]
    udp = [argument(2), *when_in([0, UDP], made), *refused]
    internet = [argument(1), mask(TYPE_BITS), *when(EQUAL, STREAM, tcp)]
    if form.own_network or form.notify:  # leads nowhere there, or the keeper has made it mute
        internet += when(EQUAL, DATAGRAM, udp)
    families = when(EQUAL, AF_UNIX, unix + refused)
    families += when_in([AF_INET, AF_INET6], internet + refused)
    return _on("socket", [argument(0), *families, *refused])


def _socketpair(form: Form) -> Program:
    """A pair of datagram sockets can send to any path."""
    if form.own_network:
        return []
    kinds = when_in([STREAM, SEQPACKET], give(ALLOW))
    return _on("socketpair", [argument(1), mask(TYPE_BITS), *kinds, *fail(EPERM)])


def _sending(form: Form) -> Program:
    """No address but that of connect: TCP fast open connects while it sends."""
    flagged = _unless_bits(3, MSG_FASTOPEN)
    no_address = [
        *[argument(4), *when(ANY_BIT, 0xFFFFFFFF, fail(EPERM))],
        *[argument(4, high=True), *when(ANY_BIT, 0xFFFFFFFF, fail(EPERM))],
    ]
    return [
        *_on("sendto", flagged if form.own_network else no_address + flagged),
        *_on("sendmsg", _unless_bits(2, MSG_FASTOPEN)),
        *_on("sendmmsg", _unless_bits(3, MSG_FASTOPEN)),
    ]


def _options() -> Program:
    refused = fail(ENOPROTOOPT)
    body: Program = [argument(1)]
    for level, options in OPTIONS.items():
        body += when(EQUAL, level, [argument(2), *when_in(options, give(ALLOW)), *refused])
    return _on("setsockopt", body + refused)


def _addresses(form: Form) -> Program:
    names = ("connect", "bind", "listen")
    return when_in(_numbers(names), give(NOTIFY)) if form.notify else []
