import contextlib
import ctypes
import os
import struct

from tests.attacks.places import Places, checked, flag_in, libc, night

TITLE = "memory by ptrace"
TRIES = "Attaches to the process that holds a token and peeks at it word by word."
PROMISE = "secrets"
MUST_FAIL = "The filter does not let the call through at all."
SEIZE, INTERRUPT, PEEK, DETACH = 0x4206, 0x4207, 2, 17


def attack(places: Places) -> str | None:
    pid = night(places)

    def trace(request: int, address: int = 0) -> int:
        nothing = ctypes.c_void_p(0)
        return int(libc.ptrace(request, pid, ctypes.c_void_p(address), nothing))

    checked(trace(SEIZE))
    trace(INTERRUPT)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    words = [trace(PEEK, places.memory + 8 * n) & (2**64 - 1) for n in range(8)]
    trace(DETACH)
    return flag_in(struct.pack("=8Q", *words))
