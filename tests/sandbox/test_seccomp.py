"""The decisions of the filter's program; test_proof shows those of the kernel."""

from typing import Any

import pytest

from gitlab_nightshift.sandbox.inside.attributes import CALLS
from gitlab_nightshift.sandbox.inside.seccomp import FilterOptions, build_filter
from gitlab_nightshift.sandbox.inside.syscalls import (
    _AARCH64,
    _BOTH,
    _X86_64,
    ATTRIBUTES,
    DENIED,
    NEW_PROCESSES,
    NEWER_ATTRIBUTES,
    NUMBERS,
    OTHERS_SCHEDULING,
    SIGNALS,
    SYSV,
)
from tests.sandbox.filter_machine import decide

EPERM, ENOTTY, ENOSYS, ENOPROTOOPT, EAFNOSUPPORT = 1, 25, 38, 92, 97


def form(
    notify: bool = False,
    own_network: bool = False,
    guard_signals: bool = False,
    deny_truncate: bool = False,
    notify_attributes: bool = False,
    **more: Any,
) -> bytes:
    return build_filter(
        FilterOptions(
            notify=notify,
            own_network=own_network,
            guard_signals=guard_signals,
            deny_truncate=deny_truncate,
            notify_attributes=notify_attributes,
            **more,
        )
    )


NOTIFY, ALONE, OWN = form(notify=True), form(), form(own_network=True)
FORMS = [NOTIFY, ALONE, OWN, form(True, guard_signals=True, deny_truncate=True)]


@pytest.mark.parametrize("filters", FORMS)
def test_calls_that_no_build_needs_are_denied(filters: bytes) -> None:
    known = [name for name in DENIED if name in NUMBERS]
    assert {name: decide(filters, name) for name in known} == dict.fromkeys(known, EPERM)


@pytest.mark.parametrize("filters", FORMS)
def test_ordinary_calls_pass(filters: bytes) -> None:
    ordinary = set(range(470)) - set(NUMBERS.values())
    assert {decide(filters, number) for number in ordinary} == {"allow"}


@pytest.mark.parametrize("filters", FORMS)
def test_calls_of_another_abi_and_unknown_ones(filters: bytes) -> None:
    assert decide(filters, 1, arch=0x40000003) == "kill"  # i386
    assert decide(filters, 0x40000000 + 41) == ENOSYS  # x32
    assert decide(filters, 470) == ENOSYS  # of a kernel newer than this program


@pytest.mark.parametrize("filters", FORMS)
def test_namespaces(filters: bytes) -> None:
    assert decide(filters, "clone3") == ENOSYS
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert decide(filters, "clone", flag | 17) == EPERM
        assert decide(filters, "unshare", flag) == EPERM
    assert decide(filters, "unshare", 0x80) == EPERM
    assert decide(filters, "clone", 0x3D0F00 | 17) == "allow"  # a thread
    assert decide(filters, "unshare", 0x400) == "allow"  # CLONE_FILES


@pytest.mark.parametrize(
    ("filters", "unix", "tcp"), [(NOTIFY, "notify", "notify"), (ALONE, EAFNOSUPPORT, "allow")]
)
def test_sockets_without_a_network_namespace(
    filters: bytes, unix: str | int, tcp: str | int
) -> None:
    flags = 0o2000000 | 0o4000  # close on exec, non-blocking
    for family in (2, 10):
        assert decide(filters, "socket", family, 1 | flags, 0) == tcp
        assert decide(filters, "socket", family, 1, 6) == tcp
        for kind, protocol in ((2, 1), (2, 136), (3, 1), (1, 132), (1, 262), (5, 132), (6, 33)):
            assert decide(filters, "socket", family, kind, protocol) == EAFNOSUPPORT
        for protocol in (0, 17):  # without a monitor nobody could disable sending
            udp = "notify" if filters is NOTIFY else EAFNOSUPPORT
            assert decide(filters, "socket", family, 2 | flags, protocol) == udp
    assert decide(filters, "socket", 1, 1 | flags, 0) == unix
    assert decide(filters, "socket", 1, 5, 0) == unix
    assert decide(filters, "socket", 1, 2, 0) == EAFNOSUPPORT  # could send to any path
    assert decide(filters, "socketpair", 1, 1 | flags, 0) == "allow"
    assert decide(filters, "socketpair", 1, 2, 0) == EPERM


@pytest.mark.parametrize("filters", FORMS)
def test_other_families(filters: bytes) -> None:
    for family in set(range(46)) - {1, 2, 10}:
        assert decide(filters, "socket", family, 1, 0) == EAFNOSUPPORT
    assert decide(filters, "socket", (1 << 32) | 16, 3, 0) == EAFNOSUPPORT


def test_sockets_in_a_network_namespace() -> None:
    assert decide(OWN, "socket", 1, 2, 0) == "allow"
    assert decide(OWN, "socketpair", 1, 2, 0) == "allow"
    assert decide(OWN, "socket", 2, 1, 0) == "allow"
    for family in (2, 10):  # leads nowhere: there is only loopback
        assert decide(OWN, "socket", family, 2, 0) == "allow"
        assert decide(OWN, "socket", family, 2, 17) == "allow"
        assert decide(OWN, "socket", family, 2, 1) == EAFNOSUPPORT
    assert {decide(OWN, name) for name in SYSV if name in NUMBERS} == {"allow"}


@pytest.mark.parametrize("filters", [NOTIFY, ALONE])
def test_system_v_ipc_is_shared_with_outsiders(filters: bytes) -> None:
    assert {decide(filters, name) for name in SYSV if name in NUMBERS} == {ENOSYS}


def test_calls_that_the_monitor_handles() -> None:
    assert {decide(NOTIFY, name) for name in ("connect", "bind", "listen")} == {"notify"}
    assert {decide(ALONE, name) for name in ("connect", "bind", "listen")} == {"allow"}


@pytest.mark.parametrize("filters", FORMS)
def test_sending(filters: bytes) -> None:
    fast_open = 0x20000000
    assert decide(filters, "sendto", 3, 0, 1, 0x4000, 0, 0) == "allow"
    assert decide(filters, "sendto", 3, 0, 1, fast_open, 0, 0) == EPERM
    assert decide(filters, "sendmsg", 3, 0, fast_open) == EPERM
    assert decide(filters, "sendmmsg", 3, 0, 1, fast_open) == EPERM
    assert decide(filters, "sendmsg", 3, 0, 0) == "allow"
    with_address = "allow" if filters is OWN else EPERM
    assert decide(filters, "sendto", 3, 0, 1, 0, 0x7FFF12345678, 16) == with_address
    assert decide(filters, "sendto", 3, 0, 1, 0, 0x7FFF00000000, 16) == with_address


@pytest.mark.parametrize("filters", FORMS)
def test_socket_options_by_name(filters: bytes) -> None:
    for level, option in ((1, 2), (1, 15), (6, 1), (0, 1), (41, 26)):
        assert decide(filters, "setsockopt", 3, level, option) == "allow"
    refused = {
        1: (25, 36, 62),  # BINDTODEVICE, MARK, BINDTOIFINDEX
        6: (19, 30, 31),  # TCP_REPAIR, FASTOPEN_CONNECT, ULP
        0: (4, 19),  # IP_OPTIONS, IP_TRANSPARENT
        41: (57, 32),  # IPV6_RTHDR, FLOWLABEL_MGR
        270: (1,),  # other levels
        255: (3,),
    }
    for level, options in refused.items():
        for option in options:
            assert decide(filters, "setsockopt", 3, level, option) == ENOPROTOOPT


@pytest.mark.parametrize("filters", FORMS)
def test_other_arguments(filters: bytes) -> None:
    assert decide(filters, "personality", 0) == "allow"
    assert decide(filters, "personality", 0xFFFFFFFF) == "allow"
    assert decide(filters, "personality", 0x0400000) == EPERM  # READ_IMPLIES_EXEC
    assert decide(filters, "ioctl", 0, 0x5412) == EPERM  # TIOCSTI
    assert decide(filters, "ioctl", 0, (1 << 32) | 0x5412) == EPERM
    assert decide(filters, "ioctl", 0, 0x5413) == "allow"
    assert decide(filters, "ioctl", 0, 0x40049409) == "allow"  # FICLONE
    # FS_IOC_SETFLAGS, FSSETXATTR, ENABLE_VERITY, BTRFS_IOC_SUBVOL_CREATE
    for request in (0x40086602, 0x401C5820, 0x40806685, 0x5000940E):
        assert decide(filters, "ioctl", 0, request) == ("allow" if filters is OWN else ENOTTY)
    assert decide(filters, "prlimit64", 0, 7) == "allow"
    assert decide(filters, "prlimit64", 4711, 4) == EPERM  # another's core size


def test_signals_where_landlock_does_not_scope_them() -> None:
    monitored = form(True, guard_signals=True)
    assert {decide(monitored, name, 5) for name in SIGNALS} == {"notify"}
    assert decide(monitored, "pidfd_send_signal", 3, 9) == EPERM
    assert decide(monitored, "fcntl", 3, 8, 4711) == EPERM  # F_SETOWN
    assert decide(monitored, "fcntl", 3, 1, 0) == "allow"
    assert decide(NOTIFY, "kill", 5, 9) == "allow"
    unmonitored = form(guard_signals=True)
    assert decide(unmonitored, "kill", -1, 9) == EPERM
    assert decide(unmonitored, "kill", 5, 9) == "allow"


def test_truncate_where_landlock_does_not_check_it() -> None:
    assert decide(form(deny_truncate=True), "truncate") == EPERM
    assert decide(NOTIFY, "truncate") == "allow"


def test_attribute_changes_of_agents_with_the_jobs_user() -> None:
    monitored = form(True, notify_attributes=True)
    known = [name for name in ATTRIBUTES if name in NUMBERS]
    assert {decide(monitored, name) for name in known} == {"notify"}
    assert {decide(monitored, name) for name in NEWER_ATTRIBUTES} == {ENOSYS}
    for filters in (NOTIFY, ALONE, OWN):
        assert {decide(filters, name) for name in (*known, *NEWER_ATTRIBUTES)} == {"allow"}
    assert set(ATTRIBUTES) == set(CALLS), "whatever is handed over is answered"


def test_a_row_may_forbid_all_attribute_changes() -> None:
    known = [name for name in (*ATTRIBUTES, *NEWER_ATTRIBUTES) if name in NUMBERS]
    assert {decide(form(deny_attributes=True), name) for name in known} == {EPERM}


def test_a_lone_process_starts_signals_and_serves_nothing() -> None:
    lone = form(own_process=True, lone_pid=4711, serves=False)
    refused = [*NEW_PROCESSES, *OTHERS_SCHEDULING, "listen", "pidfd_send_signal", "tkill"]
    assert {decide(lone, name) for name in refused if name in NUMBERS} == {EPERM}
    # A process, a thread, a thread in another user namespace.
    answers = [decide(lone, "clone", flags) for flags in (17, 0x10000, 0x10010000)]
    assert answers == [EPERM, "allow", EPERM]
    for name in ("kill", "tgkill"):
        assert [decide(lone, name, pid) for pid in (4711, 1)] == ["allow", EPERM]
    assert [decide(lone, "socket", 2, kind) for kind in (1, 2)] == ["allow", "allow"]
    assert decide(lone, "socket", 1, 1) == EAFNOSUPPORT


def test_without_name_lookups_no_datagram_is_sent() -> None:
    filters = form(own_process=True, datagrams=False)
    assert [decide(filters, "socket", 2, kind) for kind in (1, 2)] == ["allow", EAFNOSUPPORT]


def test_numbers_are_unique() -> None:
    for table in (_X86_64 | _BOTH, _AARCH64 | _BOTH):
        assert len(set(table.values())) == len(table)
    only_x86 = {"modify_ldt", "iopl", "ioperm", "uselib", "_sysctl", "create_module"}
    only_x86 |= {"chmod", "chown", "lchown", "utime", "utimes", "futimesat", "fork", "vfork"}
    assert set(_X86_64) - set(_AARCH64) == only_x86
    assert set(_AARCH64) <= set(_X86_64)
