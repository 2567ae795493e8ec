import fcntl
import os

from tests.attacks.places import Places

TITLE = "the job's terminal"
TRIES = "Types into the terminal that the job's shell reads (TIOCSTI)."
PROMISE = "secrets"
MUST_FAIL = "A session of its own has no terminal; the filter refuses the request."
LOOT = "a right"
TYPE_CHARACTER = 0x5412


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), TYPE_CHARACTER, b"x")
    return "typed"
