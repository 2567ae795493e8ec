"""The system call filter of what starts confined processes: it refuses only what none of them needs
either, as they inherit it, and listens to nothing, as their monitor has to."""

import struct

from .bpf import ALLOW, assemble, branch_when_in, fail, give
from .denied_calls import CLOSED
from .kernel import Buffer, make_syscall
from .seccomp import EPERM, SET_MODE_FILTER, check_abi, find_numbers


def build_shared_filter() -> bytes:
    """The filter's bytes: no other process's memory, keyring, io_uring or part of the machine."""
    closed = branch_when_in(find_numbers(CLOSED), fail(EPERM))
    return assemble([*check_abi(), *closed, *give(ALLOW)])


def install_shared_filter() -> None:
    """Put it on this process. Needs no_new_privs. Raises OSError."""
    data = build_shared_filter()
    filters = Buffer(data)
    pointer = struct.pack("=HxxxxxxQ", len(data) // 8, filters.address)
    make_syscall("seccomp", SET_MODE_FILTER, 0, pointer)
