import ctypes
import os
import struct

from tests.attacks.places import Places, call, night

TITLE = "limits of another process"
TRIES = "Sets the core file limit of the process that holds the secrets: a crash would spill them."
PROMISE = "secrets"
MUST_FAIL = "The filter lets prlimit through for oneself alone."
LOOT = "a right"
CORE = 4


def attack(places: Places) -> str | None:
    pid = night(places)
    old = ctypes.create_string_buffer(16)
    call(places, "prlimit64", pid, CORE, None, old)
    soft, hard = struct.unpack("=QQ", old.raw)
    call(places, "prlimit64", pid, CORE, struct.pack("=QQ", hard, hard), None)
    return f"{os.getpid()} may set the limits of {pid}, before {soft}"
