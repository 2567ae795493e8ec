"""The system call filter of a process that starts confined ones. They inherit it, so it refuses
only what none of them needs, and has no listener: that is left to their monitor."""

from .bpf import ALLOW, assemble, branch_when_in, fail, give
from .denied_calls import CLOSED
from .seccomp import EPERM, check_abi, find_numbers, install


def build_shared_filter() -> bytes:
    """The filter's bytes: no other process's memory, keyring, io_uring or machine state."""
    closed = branch_when_in(find_numbers(CLOSED), fail(EPERM))
    return assemble([*check_abi(), *closed, *give(ALLOW)])


def install_shared_filter() -> None:
    """Install it on this process. Needs no_new_privs. Raises OSError."""
    install(build_shared_filter(), listening=False)
