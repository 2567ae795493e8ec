import ctypes

from tests.attacks.places import Places, checked, flag_in, libc

TITLE = "System V shared memory"
TRIES = "Attaches the segment of another program of the same user by its key."
PROMISE = "secrets"
MUST_FAIL = "Another IPC namespace; elsewhere the filter knows no System V IPC."


def needs(places: Places) -> None:
    checked(libc.shmget(0, 4096, 0o600))


def attack(places: Places) -> str | None:
    found = checked(libc.shmget(places.shared_memory, 4096, 0))
    libc.shmat.restype = ctypes.c_void_p
    return flag_in(ctypes.string_at(libc.shmat(found, None, 0), 64))
