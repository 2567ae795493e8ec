"""Ports of this machine that no other test gets meanwhile."""

import contextlib
import random
import socket
from collections.abc import Iterator


def pick_port() -> int:
    """A free one that the kernel gives nobody: of those it would give to another test's server what
    this test is about to bind."""
    for port in random.sample(range(20_000, 32_000), 1_000):
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("", port))
            return port
    raise AssertionError("no port is free")


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """One on which nobody listens, nor can."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])
