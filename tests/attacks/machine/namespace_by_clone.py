import ctypes
import os

from tests.attacks.places import Places, call

TITLE = "a namespace by clone3"
TRIES = "Starts a process with new namespaces; the flags stand in memory, where no filter looks."
PROMISE = "secrets"
MUST_FAIL = "The filter says that there is no clone3."
LOOT = "a right"
NEW_USER, CHILD_SIGNAL = 0x10000000, 17


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    arguments = (ctypes.c_uint64 * 8)(NEW_USER, 0, 0, 0, CHILD_SIGNAL)
    pid = call(places, "clone3", ctypes.byref(arguments), ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return f"process {pid} has its own users"
