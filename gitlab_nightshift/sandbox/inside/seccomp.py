"""The system call filter: what a confined process may not even ask the kernel for.

Two forms of one program. Without ``notify`` sockets are ordinary; with it each socket, connect,
bind and listen is handed to the monitor (see :mod:`.egress_filter`), and where agents are the
job's own user, who may change its files, each change of a mode, owner, time or extended attribute
(see :mod:`.attributes`).
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
    assemble,
    branch_unless,
    branch_when,
    branch_when_in,
    fail,
    give,
    load,
    load_argument,
    mask,
)
from .denied_calls import (
    ATTRIBUTES,
    DENIED,
    MOUNTING,
    NEW_PROCESSES,
    NEWER_ATTRIBUTES,
    OTHERS_SCHEDULING,
    SIGNALS,
    SYSV,
)
from .kernel import Buffer, make_syscall
from .syscall_numbers import AUDIT_ARCH, LAST_KNOWN, NUMBERS

EPERM, EINVAL, ENOTTY, ENOSYS, ENOPROTOOPT, EAFNOSUPPORT = 1, 22, 25, 38, 92, 97
SET_MODE_FILTER = 1
NEW_LISTENER, WAIT_KILLABLE = 8, 32

NEW_NAMESPACES = 0x7E020080
"""All CLONE_NEW* flags; 0x80 is CLONE_NEWTIME for unshare, and part of the signal for clone."""
CLONE_NAMESPACES = NEW_NAMESPACES & ~0xFF
NEW_THREAD = 0x10000
TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
REQUEST_TYPE, TERMINALS, SOCKETS = 0xFF00, 0x5400, 0x8900
"""Requests of terminals, pipes and every descriptor (FIONREAD, FIOCLEX, …), and of sockets."""
FILE_REQUESTS = [
    # FIGETBSZ, FS_IOC_FIEMAP, GETFLAGS, GETVERSION, FSGETXATTR, GETFSLABEL, RNDGETENTCNT
    *(2, 0xC020660B, 0x80086601, 0x80087601, 0x801C581F, 0x81009431, 0x80045200),
    # FICLONE, FICLONERANGE: copies into what is open for writing
    *(0x40049409, 0x4020940D),
]
"""Requests of files by name: others change flags, seal a file for ever (verity) or make a folder
(a subvolume) where a descriptor was opened only for reading."""
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
"""Levels and options of ``setsockopt`` by name: some send an allowed address elsewhere."""


class FilterOptions:
    """Which form of the filter: see :func:`build_filter`."""

    def __init__(
        self,
        *,
        notify: bool,
        own_network: bool,
        guard_signals: bool,
        guard_length: bool,
        judge_attributes: bool,
        sockets: bool = True,
        in_row: bool = False,
        datagrams: bool = True,
        alone: int = 0,
        serves: bool = True,
        keep_attributes: bool = False,
    ) -> None:
        self.notify, self.own_network, self.sockets = notify, own_network, sockets
        self.guard_signals, self.guard_length = guard_signals, guard_length
        self.judge_attributes = judge_attributes
        self.in_row, self.datagrams = in_row, datagrams
        self.alone, self.serves = alone, serves
        self.keep_attributes = keep_attributes


def build_filter(form: FilterOptions) -> bytes:
    """The filter's bytes.

    ``own_network``: there are namespaces, so UNIX sockets of all kinds and System V IPC are
    harmless. Without it and without ``notify`` no UNIX socket exists at all but as a pair: nobody
    could check where it goes. ``guard_signals``: Landlock does not keep signals from outsiders, so
    the monitor does, or at least none goes to everybody. ``guard_length``: Landlock does not see
    ``truncate``. ``judge_attributes`` (only with ``notify``): the monitor changes modes, owners,
    times and extended attributes. Without ``sockets`` there is none at all.

    ``in_row``: a process of this program, which slows no other down, and looks up names where it
    may send ``datagrams``; ``alone`` is its pid if it also starts no other and signals none (else
    0), ``serves`` whether it listens. ``keep_attributes``: nobody changes modes, owners, times and
    extended attributes.
    """
    parts = [
        check_abi(),
        _deny_calls(form),
        _restrict_processes(form),
        _restrict_requests(form),
        _restrict_signals(form),
        _restrict_sockets(form),
        _restrict_socketpairs(form),
        _restrict_sending(form),
        _restrict_options(),
        _notify_addresses(form),
        _notify_attributes(form),
    ]
    return assemble([x for part in parts for x in part] + give(ALLOW))


def build_attribute_filter() -> bytes:
    """The filter's bytes of a process whose modes, owners, times and extended attributes a broker
    changes (:mod:`.broker_service`): no path names another file for it than for the broker."""
    form = FilterOptions(
        notify=True,
        own_network=False,
        guard_signals=False,
        guard_length=False,
        judge_attributes=True,
    )
    parts = [
        check_abi(),
        branch_when_in(find_numbers(MOUNTING), fail(EPERM)),
        _restrict_namespaces(form),
        _restrict_requests(form),
        _notify_attributes(form),
    ]
    return assemble([x for part in parts for x in part] + give(ALLOW))


def install(data: bytes, *, listening: bool) -> int | None:
    """Put a filter on this process; the listener's descriptor where there is one. Needs
    no_new_privs.

    Raises OSError: EBUSY where another program is listening already, EINVAL where the kernel is
    too old. Without WAIT_KILLABLE (Linux 5.19) a signal repeats the call that is being handled.
    """
    filters = Buffer(data)
    pointer = struct.pack("=HxxxxxxQ", len(data) // 8, filters.address)
    if not listening:
        make_syscall("seccomp", SET_MODE_FILTER, 0, pointer)
        return None
    try:
        return make_syscall("seccomp", SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE, pointer)
    except OSError as error:
        if error.errno != EINVAL:
            raise
    return make_syscall("seccomp", SET_MODE_FILTER, NEW_LISTENER, pointer)


def _branch_on_call(name: str, body: Program) -> Program:
    return branch_when(EQUAL, NUMBERS[name], body)


def find_numbers(names: tuple[str, ...]) -> list[int]:
    return [NUMBERS[name] for name in names if name in NUMBERS]


def check_abi() -> Program:
    """Another ABI (32 bit, x32) has other numbers: killed. A call that nobody knows: not there."""
    foreign = [load(ARCH_AT), *branch_unless(EQUAL, AUDIT_ARCH, give(KILL)), load(NUMBER_AT)]
    return foreign + branch_when(GREATER, LAST_KNOWN, fail(ENOSYS))


def _deny_calls(form: FilterOptions) -> Program:
    ipc = [] if form.own_network else branch_when_in(find_numbers(SYSV), fail(ENOSYS))
    length = ("truncate",) if form.guard_length else ()
    kept = (*ATTRIBUTES, *NEWER_ATTRIBUTES) if form.keep_attributes else ()
    row = OTHERS_SCHEDULING if form.in_row else ()
    alone, served = NEW_PROCESSES if form.alone else (), () if form.serves else ("listen",)
    denied = (*DENIED, *length, *kept, *row, *alone, *served)
    return branch_when_in(find_numbers(denied), fail(EPERM)) + ipc


def _restrict_processes(form: FilterOptions) -> Program:
    personality = [load_argument(0), *branch_when_in([0, 0xFFFFFFFF], give(ALLOW)), *fail(EPERM)]
    own_limits = [
        *[load_argument(0), *branch_when(ANY_BIT, 0xFFFFFFFF, fail(EPERM))],
        *give(ALLOW),
    ]
    return [
        *_branch_on_call(
            "prlimit64", own_limits
        ),  # another's limits decide whether it dies and dumps core
        *_restrict_namespaces(form),
        *_branch_on_call("personality", personality),
    ]


def _restrict_namespaces(form: FilterOptions) -> Program:
    return [
        *_branch_on_call(
            "clone3", fail(ENOSYS)
        ),  # its flags cannot be seen; the C library falls back to clone
        *_branch_on_call("clone", _restrict_clone(form)),
        *_branch_on_call("unshare", _deny_bits(0, NEW_NAMESPACES)),
    ]


def _restrict_clone(form: FilterOptions) -> Program:
    if not form.alone:
        return _deny_bits(0, CLONE_NAMESPACES)
    apart = branch_when(ANY_BIT, CLONE_NAMESPACES, fail(EPERM))
    thread = branch_when(ANY_BIT, NEW_THREAD, give(ALLOW))
    return [load_argument(0), *apart, *thread, *fail(EPERM)]


def _deny_bits(index: int, bits: int) -> Program:
    return [load_argument(index), *branch_when(ANY_BIT, bits, fail(EPERM)), *give(ALLOW)]


def _restrict_requests(form: FilterOptions) -> Program:
    requests = [TIOCSTI, TIOCLINUX, *((FIOSETOWN, SIOCSPGRP) if form.guard_signals else ())]
    body = [load_argument(1), *branch_when_in(requests, fail(EPERM))]
    if form.own_network:
        return _branch_on_call("ioctl", body + give(ALLOW))
    body += [*branch_when_in(FILE_REQUESTS, give(ALLOW)), mask(REQUEST_TYPE)]
    return _branch_on_call(
        "ioctl", [*body, *branch_when_in([TERMINALS, SOCKETS], give(ALLOW)), *fail(ENOTTY)]
    )


def _restrict_signals(form: FilterOptions) -> Program:
    if not (form.guard_signals or form.alone):
        return []
    owner = [load_argument(1), *branch_when_in([F_SETOWN, F_SETOWN_EX], fail(EPERM)), *give(ALLOW)]
    others = _branch_on_call("pidfd_send_signal", fail(EPERM)) + _branch_on_call("fcntl", owner)
    if form.alone:
        to_self = [load_argument(0), *branch_when(EQUAL, form.alone, give(ALLOW)), *fail(EPERM)]
        return others + branch_when_in(find_numbers(SIGNALS), to_self)
    if form.notify:
        return others + branch_when_in(find_numbers(SIGNALS), give(NOTIFY))
    everybody = [load_argument(0), *branch_when(EQUAL, 0xFFFFFFFF, fail(EPERM)), *give(ALLOW)]
    return others + _branch_on_call("kill", everybody)


def _restrict_sockets(form: FilterOptions) -> Program:
    if not form.sockets:
        return _branch_on_call("socket", fail(EAFNOSUPPORT))
    made = give(NOTIFY if form.notify else ALLOW)
    streams = [load_argument(1), mask(TYPE_BITS), *branch_when_in([STREAM, SEQPACKET], made)]
    unix = give(ALLOW) if form.own_network else streams if form.notify else []
    refused = fail(EAFNOSUPPORT)
    tcp = [load_argument(2), *branch_when_in([0, TCP], made), *refused]
    udp = [load_argument(2), *branch_when_in([0, UDP], made), *refused]
    internet = [load_argument(1), mask(TYPE_BITS), *branch_when(EQUAL, STREAM, tcp)]
    # Leads nowhere there, or the monitor has made it mute; a process of ours asks for names.
    if form.own_network or form.notify or (form.in_row and form.datagrams):
        internet += branch_when(EQUAL, DATAGRAM, udp)
    families = branch_when(EQUAL, AF_UNIX, unix + refused)
    families += branch_when_in([AF_INET, AF_INET6], internet + refused)
    return _branch_on_call("socket", [load_argument(0), *families, *refused])


def _restrict_socketpairs(form: FilterOptions) -> Program:
    """A pair of datagram sockets can send to any path."""
    if form.own_network:
        return []
    kinds = branch_when_in([STREAM, SEQPACKET], give(ALLOW))
    return _branch_on_call("socketpair", [load_argument(1), mask(TYPE_BITS), *kinds, *fail(EPERM)])


def _restrict_sending(form: FilterOptions) -> Program:
    """No address but that of connect: TCP fast open connects while it sends."""
    flagged = _deny_bits(3, MSG_FASTOPEN)
    no_address = [
        *[load_argument(4), *branch_when(ANY_BIT, 0xFFFFFFFF, fail(EPERM))],
        *[load_argument(4, high=True), *branch_when(ANY_BIT, 0xFFFFFFFF, fail(EPERM))],
    ]
    return [
        *_branch_on_call("sendto", flagged if form.own_network else no_address + flagged),
        *_branch_on_call("sendmsg", _deny_bits(2, MSG_FASTOPEN)),
        *_branch_on_call("sendmmsg", _deny_bits(3, MSG_FASTOPEN)),
    ]


def _restrict_options() -> Program:
    refused = fail(ENOPROTOOPT)
    body: Program = [load_argument(1)]
    for level, options in OPTIONS.items():
        body += branch_when(
            EQUAL, level, [load_argument(2), *branch_when_in(options, give(ALLOW)), *refused]
        )
    return _branch_on_call("setsockopt", body + refused)


def _notify_addresses(form: FilterOptions) -> Program:
    names = find_numbers(("connect", "bind", "listen"))
    return branch_when_in(names, give(NOTIFY)) if form.notify else []


def _notify_attributes(form: FilterOptions) -> Program:
    if not form.judge_attributes:
        return []
    newer = branch_when_in(find_numbers(NEWER_ATTRIBUTES), fail(ENOSYS))
    return newer + branch_when_in(find_numbers(ATTRIBUTES), give(NOTIFY))
