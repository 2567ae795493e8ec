import ctypes

from tests.attacks.places import Places, checked, libc

TITLE = "system calls of the x32 interface"
TRIES = "Makes a socket by the number of x32, which no list of numbers has."
PROMISE = "network"
MUST_FAIL = "The filter knows no number beyond the last one that was judged."
LOOT = "a right"
X32 = 0x40000000


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    number = ctypes.c_long(X32 + places.numbers["socket"])
    return f"socket {checked(libc.syscall(number, 2, 2, 0))}"
