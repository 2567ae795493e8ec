import ctypes

from tests.attacks.places import Places, checked, libc

TITLE = "every file that anybody opens"
TRIES = "Asks fanotify for the whole file system: it hands over each file that is opened."
PROMISE = "secrets"
MUST_FAIL = "No capability to do so, and the filter refuses it."
LOOT = "a right"
ADD_FILESYSTEM, OPENED = 0x101, 0x20


def _watched(path: str) -> int:
    group = checked(libc.fanotify_init(0, 0))
    libc.fanotify_mark.argtypes = [ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int]
    return checked(libc.fanotify_mark(group, ADD_FILESYSTEM, OPENED, -100, path.encode()))


def needs(places: Places) -> None:
    _watched(places.public)


def attack(places: Places) -> str | None:
    return f"fanotify marks everything: {_watched(places.checkout)}"
