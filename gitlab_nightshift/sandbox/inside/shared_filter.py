"""The system call filter of what starts confined processes: it refuses only what none of them needs
either, as they inherit it, and listens to nothing, as their monitor has to."""

from .bpf import ALLOW, assemble, branch_when_in, fail, give
from .denied_calls import CLOSED
from .seccomp import EPERM, check_abi, find_numbers, install


def build_shared_filter() -> bytes:
    """The filter's bytes: no other process's memory, keyring, io_uring or part of the machine."""
    closed = branch_when_in(find_numbers(CLOSED), fail(EPERM))
    return assemble([*check_abi(), *closed, *give(ALLOW)])


def install_shared_filter() -> None:
    """Put it on this process. Needs no_new_privs. Raises OSError."""
    install(build_shared_filter(), listening=False)
