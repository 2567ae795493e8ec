import ctypes
import struct

from tests.attacks.places import Places, call, flag_in, night

TITLE = "memory by process_vm_readv"
TRIES = "Copies the token out of another process by a system call, without any file."
PROMISE = "secrets"
MUST_FAIL = "The filter does not let the call through at all."


def attack(places: Places) -> str | None:
    buffer = ctypes.create_string_buffer(64)
    ours = struct.pack("=QQ", ctypes.addressof(buffer), 64)
    theirs = struct.pack("=QQ", places.memory, 64)
    call(places, "process_vm_readv", night(places), ours, 1, theirs, 1, 0)
    return flag_in(buffer.raw)
