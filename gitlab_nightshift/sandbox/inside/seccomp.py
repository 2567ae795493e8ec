"""The system call filter of a confined process.

It has two variants. Without ``notify`` sockets are ordinary. With it, the monitor handles each call
of socket, connect, bind and listen (:mod:`.egress_filter`), and, if agents run as the job's own
user, each change of a mode, owner, time or extended attribute (:mod:`.attributes`).

A filter is a program in classic BPF: a list of instructions. Every *body* below returns on all its
paths, so bodies can simply follow one another.
"""

import struct

from .syscalls import (
    ATTRIBUTES,
    AUDIT_ARCH,
    CLOSED,
    DENIED,
    LAST_KNOWN,
    MOUNTING,
    NEW_PROCESSES,
    NEWER_ATTRIBUTES,
    NUMBERS,
    OTHERS_SCHEDULING,
    SIGNALS,
    SYSV,
    Buffer,
    make_syscall,
)

# --- instructions ---------------------------------------------------------------------------------


# linux/bpf_common.h (BPF_LD | BPF_W | BPF_ABS, …), linux/seccomp.h (SECCOMP_RET_*)
LOAD, EQUAL, ANY_BIT, GREATER, JUMP, RETURN, MASK = 0x20, 0x15, 0x45, 0x25, 0x05, 0x06, 0x54
KILL, NOTIFY, ALLOW = 0x80000000, 0x7FC00000, 0x7FFF0000
# Offsets in struct seccomp_data (seccomp(2))
NUMBER_AT, ARCH_AT, ARGUMENTS_AT = 0, 4, 16

Program = list[bytes]


def _encode_instruction(code: int, value: int, skip_if: int = 0, skip_unless: int = 0) -> bytes:
    """An instruction. A comparison skips ``skip_if`` of the next ones if it holds, and
    ``skip_unless`` if it does not."""
    # At most 255: one byte in struct sock_filter.
    return struct.pack("=HBBI", code, skip_if, skip_unless, value & 0xFFFFFFFF)


def load(offset: int) -> bytes:
    """Load 32 bits of the call's data."""
    return _encode_instruction(LOAD, offset)


def load_argument(index: int, *, high: bool = False) -> bytes:
    """Load the lower (or upper) half of an argument; both supported machines are little endian."""
    return load(ARGUMENTS_AT + 8 * index + 4 * high)


def mask(value: int) -> bytes:
    """Keep only these bits of the loaded value."""
    return _encode_instruction(MASK, value)


def answer(action: int) -> Program:
    """Return an action."""
    return [_encode_instruction(RETURN, action)]


def fail(number: int) -> Program:
    """Return an error number to the caller."""
    # SECCOMP_RET_ERRNO: the lower 16 bits are the error number (seccomp(2)).
    return answer(0x50000 | number)


def branch_when(code: int, value: int, body: Program) -> Program:
    """Run ``body`` if the comparison holds, else go on after it."""
    return [_encode_instruction(code, value, 0, len(body)), *body]


def branch_unless(code: int, value: int, body: Program) -> Program:
    """Run ``body`` if the comparison does not hold, else go on after it."""
    return [_encode_instruction(code, value, len(body), 0), *body]


def branch_when_in(values: list[int], body: Program) -> Program:
    """Run ``body`` if the loaded value is one of these (up to 250)."""
    tests = [
        _encode_instruction(EQUAL, value, len(values) - i, 0) for i, value in enumerate(values)
    ]
    return [*tests, _encode_instruction(JUMP, len(body)), *body]


def assemble(*parts: Program) -> bytes:
    """The parts as one program for the kernel, which allows a call that no part answers."""
    return b"".join(instruction for part in (*parts, answer(ALLOW)) for instruction in part)


# --- the filter -----------------------------------------------------------------------------------


EPERM, EINVAL, ENOTTY, ENOSYS, ENOPROTOOPT, EAFNOSUPPORT = 1, 22, 25, 38, 92, 97
SET_MODE_FILTER = 1
NEW_LISTENER, WAIT_KILLABLE = 8, 32

NEW_NAMESPACES = 0x7E020080
"""All CLONE_NEW* flags. 0x80 is CLONE_NEWTIME for unshare, but part of the exit signal for clone
(clone(2), unshare(2))."""
CLONE_NAMESPACES = NEW_NAMESPACES & ~0xFF
NEW_THREAD = 0x10000
# The first two feed a terminal, whose shell runs what it reads (ioctl_tty(2), ioctl_console(2)).
TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
REQUEST_TYPE, TERMINALS, SOCKETS = 0xFF00, 0x5400, 0x8900
"""The second byte of ioctl requests: of terminals, pipes and all descriptors (FIONREAD, FIOCLEX,
…), and of sockets."""
FILE_REQUESTS = [
    # FIGETBSZ, FS_IOC_FIEMAP, GETFLAGS, GETVERSION, FSGETXATTR, GETFSLABEL, RNDGETENTCNT
    *(2, 0xC020660B, 0x80086601, 0x80087601, 0x801C581F, 0x81009431, 0x80045200),
    # FICLONE, FICLONERANGE: they copy into a descriptor that is open for writing
    *(0x40049409, 0x4020940D),
]
"""Allowed ioctl requests of files. Others need only a descriptor open for reading, but change
flags, seal a file for good (verity) or create a folder (a subvolume)."""
F_SETOWN, F_SETOWN_EX, MSG_FASTOPEN = 8, 15, 0x20000000
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
"""Allowed options of ``setsockopt`` by level: others could divert an allowed address elsewhere."""


class FilterOptions:
    """The options of a filter: see :func:`build_filter`."""

    def __init__(
        self,
        *,
        notify: bool,
        own_network: bool,
        guard_signals: bool,
        deny_truncate: bool,
        notify_attributes: bool,
        sockets: bool = True,
        own_process: bool = False,
        datagrams: bool = True,
        lone_pid: int = 0,
        serves: bool = True,
        deny_attributes: bool = False,
    ) -> None:
        self.notify, self.own_network, self.sockets = notify, own_network, sockets
        self.guard_signals, self.deny_truncate = guard_signals, deny_truncate
        self.notify_attributes = notify_attributes
        self.own_process, self.datagrams = own_process, datagrams
        self.lone_pid, self.serves = lone_pid, serves
        self.deny_attributes = deny_attributes


def build_filter(options: FilterOptions) -> bytes:
    """The bytes of a filter.

    ``own_network``: the tree has its own namespaces, so all UNIX sockets and System V IPC are
    harmless. Without it and without ``notify``, UNIX sockets exist only as pairs, as nobody could
    check where they connect. ``guard_signals``: this Landlock does not confine signals, so the
    monitor does; without one, only ``kill(-1)`` is refused. ``deny_truncate``: this Landlock does
    not check ``truncate``. ``notify_attributes`` (only with ``notify``): the monitor changes modes,
    owners, times and extended attributes. Without ``sockets`` there are none at all.

    ``own_process``: a process of this program, which may not slow down others. It may send
    ``datagrams`` to look up names, and listen if it ``serves``. ``lone_pid`` is its pid if it may
    neither start nor signal other processes, else 0. ``deny_attributes``: no change of modes,
    owners, times and extended attributes.
    """
    return assemble(
        check_abi(),  # first: all system call numbers below are of this ABI
        _deny_calls(options),
        _restrict_processes(options),
        _restrict_requests(options),
        _restrict_signals(options),
        _restrict_sockets(options),
        _restrict_socketpairs(options),
        _restrict_sending(options),
        _restrict_options(),
        _notify_addresses(options),
        _notify_attributes(options),
    )


def build_attribute_filter() -> bytes:
    """The bytes of the filter for a process whose broker changes modes, owners, times and extended
    attributes (:mod:`.broker_service`). It forbids mounts, as a path has to name the same file for
    the process and the broker."""
    options = FilterOptions(
        notify=True,
        own_network=False,
        guard_signals=False,
        deny_truncate=False,
        notify_attributes=True,
    )
    return assemble(
        check_abi(),
        branch_when_in(find_numbers(MOUNTING), fail(EPERM)),
        _restrict_namespaces(options),
        _restrict_requests(options),
        _notify_attributes(options),
    )


def install_shared_filter() -> None:
    """Install the filter of a process that starts confined ones: no other process's memory,
    keyring, io_uring or machine state.

    The confined ones inherit it, so it refuses only what none of them needs, and has no listener: a
    process can have only one filter with a listener (seccomp(2), EBUSY), that of their monitor.
    Needs no_new_privs. Raises OSError.
    """
    closed = branch_when_in(find_numbers(CLOSED), fail(EPERM))
    install(assemble(check_abi(), closed), listening=False)


def install(program: bytes, *, listening: bool) -> int | None:
    """Install a filter on this process; returns its listener, if any. Needs no_new_privs.

    Raises OSError: EBUSY if a filter above already has a listener, EINVAL if the kernel is too old.
    Without WAIT_KILLABLE (Linux 5.19) a signal interrupts and repeats the call being handled.
    """
    # struct sock_fprog: a length, padding, a pointer to bytes that must live until the call.
    buffer = Buffer(program)
    fprog = struct.pack("=HxxxxxxQ", len(program) // 8, buffer.address)
    if not listening:
        make_syscall("seccomp", SET_MODE_FILTER, 0, fprog)
        return None
    try:
        return make_syscall("seccomp", SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE, fprog)
    except OSError as error:
        if error.errno != EINVAL:
            raise
    return make_syscall("seccomp", SET_MODE_FILTER, NEW_LISTENER, fprog)


def _branch_on_call(name: str, body: Program) -> Program:
    return branch_when(EQUAL, NUMBERS[name], body)


def find_numbers(names: tuple[str, ...]) -> list[int]:
    """The numbers of those calls that this machine has."""
    return [NUMBERS[name] for name in names if name in NUMBERS]


def check_abi() -> Program:
    """Kill a process that uses another ABI (32 bit), which has other numbers; ENOSYS for unknown
    calls. Leaves the call's number loaded."""
    # x32 has x86_64's AUDIT_ARCH, but sets bit 30 of the number (seccomp(2)): above LAST_KNOWN.
    foreign = [load(ARCH_AT), *branch_unless(EQUAL, AUDIT_ARCH, answer(KILL)), load(NUMBER_AT)]
    return foreign + branch_when(GREATER, LAST_KNOWN, fail(ENOSYS))


def _deny_calls(options: FilterOptions) -> Program:
    denied: tuple[str, ...] = DENIED
    if options.deny_truncate:
        denied += ("truncate",)
    if options.deny_attributes:
        denied += (*ATTRIBUTES, *NEWER_ATTRIBUTES)
    if options.own_process:
        denied += OTHERS_SCHEDULING
    if options.lone_pid:
        denied += NEW_PROCESSES
    if not options.serves:
        denied += ("listen",)
    ipc = [] if options.own_network else branch_when_in(find_numbers(SYSV), fail(ENOSYS))
    return branch_when_in(find_numbers(denied), fail(EPERM)) + ipc


def _restrict_processes(options: FilterOptions) -> Program:
    # PER_LINUX and a query: other personalities switch protections off (personality(2)).
    personality = [load_argument(0), *branch_when_in([0, 0xFFFFFFFF], answer(ALLOW)), *fail(EPERM)]
    return [
        # Only pid 0, itself: another process's limits decide whether it dies and dumps core.
        *_branch_on_call("prlimit64", _deny_bits(0, 0xFFFFFFFF)),
        *_restrict_namespaces(options),
        *_branch_on_call("personality", personality),
    ]


def _restrict_namespaces(options: FilterOptions) -> Program:
    return [
        # Its flags lie in memory, which a filter cannot read; the C library falls back to clone.
        *_branch_on_call("clone3", fail(ENOSYS)),
        *_branch_on_call("clone", _restrict_clone(options)),
        *_branch_on_call("unshare", _deny_bits(0, NEW_NAMESPACES)),
    ]


def _restrict_clone(options: FilterOptions) -> Program:
    if not options.lone_pid:
        return _deny_bits(0, CLONE_NAMESPACES)
    namespaces = branch_when(ANY_BIT, CLONE_NAMESPACES, fail(EPERM))
    thread = branch_when(ANY_BIT, NEW_THREAD, answer(ALLOW))
    return [load_argument(0), *namespaces, *thread, *fail(EPERM)]


def _deny_bits(index: int, bits: int) -> Program:
    return [load_argument(index), *branch_when(ANY_BIT, bits, fail(EPERM)), *answer(ALLOW)]


def _restrict_requests(options: FilterOptions) -> Program:
    requests = [TIOCSTI, TIOCLINUX, *((FIOSETOWN, SIOCSPGRP) if options.guard_signals else ())]
    body = [load_argument(1), *branch_when_in(requests, fail(EPERM))]
    if options.own_network:
        return _branch_on_call("ioctl", body + answer(ALLOW))
    body += [*branch_when_in(FILE_REQUESTS, answer(ALLOW)), mask(REQUEST_TYPE)]
    return _branch_on_call(
        "ioctl", [*body, *branch_when_in([TERMINALS, SOCKETS], answer(ALLOW)), *fail(ENOTTY)]
    )


def _restrict_signals(options: FilterOptions) -> Program:
    if not (options.guard_signals or options.lone_pid):
        return []
    # F_SETOWN and FIOSETOWN name a process that gets SIGIO or SIGURG (fcntl(2)).
    no_owner = branch_when_in([F_SETOWN, F_SETOWN_EX], fail(EPERM))
    commands = [load_argument(1), *no_owner, *answer(ALLOW)]
    indirect = _branch_on_call("pidfd_send_signal", fail(EPERM)) + _branch_on_call(
        "fcntl", commands
    )
    if options.lone_pid:
        only_self = branch_when(EQUAL, options.lone_pid, answer(ALLOW))
        to_self = [load_argument(0), *only_self, *fail(EPERM)]
        return indirect + branch_when_in(find_numbers(SIGNALS), to_self)
    if options.notify:
        return indirect + branch_when_in(find_numbers(SIGNALS), answer(NOTIFY))
    # Without a monitor at least not to -1, which is every process of this user (kill(2)).
    not_all = [load_argument(0), *branch_when(EQUAL, 0xFFFFFFFF, fail(EPERM)), *answer(ALLOW)]
    return indirect + _branch_on_call("kill", not_all)


def _restrict_sockets(options: FilterOptions) -> Program:
    if not options.sockets:
        return _branch_on_call("socket", fail(EAFNOSUPPORT))
    allowed = answer(NOTIFY if options.notify else ALLOW)
    unix: Program = []
    if options.own_network:
        unix = answer(ALLOW)
    elif options.notify:
        unix = [load_argument(1), mask(TYPE_BITS), *branch_when_in([STREAM, SEQPACKET], allowed)]
    refused = fail(EAFNOSUPPORT)
    tcp = [load_argument(2), *branch_when_in([0, TCP], allowed), *refused]
    udp = [load_argument(2), *branch_when_in([0, UDP], allowed), *refused]
    internet = [load_argument(1), mask(TYPE_BITS), *branch_when(EQUAL, STREAM, tcp)]
    # UDP reaches nobody in a namespace, with a monitor it cannot send; ours look up names.
    if options.own_network or options.notify or (options.own_process and options.datagrams):
        internet += branch_when(EQUAL, DATAGRAM, udp)
    families = branch_when(EQUAL, AF_UNIX, unix + refused)
    families += branch_when_in([AF_INET, AF_INET6], internet + refused)
    return _branch_on_call("socket", [load_argument(0), *families, *refused])


def _restrict_socketpairs(options: FilterOptions) -> Program:
    """No datagram pairs: an end of one can still send to any path."""
    if options.own_network:
        return []
    kinds = branch_when_in([STREAM, SEQPACKET], answer(ALLOW))
    return _branch_on_call("socketpair", [load_argument(1), mask(TYPE_BITS), *kinds, *fail(EPERM)])


def _restrict_sending(options: FilterOptions) -> Program:
    """Only connected sockets may send: ``sendto`` with an address, and TCP fast open, would connect
    unchecked."""
    no_fast_open = _deny_bits(3, MSG_FASTOPEN)
    no_address = [
        *[load_argument(4), *branch_when(ANY_BIT, 0xFFFFFFFF, fail(EPERM))],
        *[load_argument(4, high=True), *branch_when(ANY_BIT, 0xFFFFFFFF, fail(EPERM))],
    ]
    return [
        *_branch_on_call(
            "sendto", no_fast_open if options.own_network else no_address + no_fast_open
        ),
        # Their addresses lie in memory. Only datagrams use them (send(2)), which cannot be sent, or
        # reach nobody in a namespace.
        *_branch_on_call("sendmsg", _deny_bits(2, MSG_FASTOPEN)),
        *_branch_on_call("sendmmsg", _deny_bits(3, MSG_FASTOPEN)),
    ]


def _restrict_options() -> Program:
    refused = fail(ENOPROTOOPT)
    body: Program = [load_argument(1)]
    for level, options in OPTIONS.items():
        body += branch_when(
            EQUAL, level, [load_argument(2), *branch_when_in(options, answer(ALLOW)), *refused]
        )
    return _branch_on_call("setsockopt", body + refused)


def _notify_addresses(options: FilterOptions) -> Program:
    names = find_numbers(("connect", "bind", "listen"))
    return branch_when_in(names, answer(NOTIFY)) if options.notify else []


def _notify_attributes(options: FilterOptions) -> Program:
    if not options.notify_attributes:
        return []
    # ENOSYS, as from an older kernel: the monitor does not understand their arguments.
    newer = branch_when_in(find_numbers(NEWER_ATTRIBUTES), fail(ENOSYS))
    return newer + branch_when_in(find_numbers(ATTRIBUTES), answer(NOTIFY))
