import ctypes

from tests.attacks.places import Places, checked, libc

TITLE = "the kernel's log"
TRIES = "Reads it by syslog(2) and by /dev/kmsg."
PROMISE = "secrets"
MUST_FAIL = "The filter refuses the call, the device is not allowed."
LOOT = "a right"
READ_ALL = 3


def _read() -> int:
    return checked(libc.klogctl(READ_ALL, ctypes.create_string_buffer(4096), 4096))


def needs(places: Places) -> None:
    _read()


def attack(places: Places) -> str | None:
    try:
        return f"{_read()} bytes"
    except OSError:
        with open("/dev/kmsg", "rb") as log:  # noqa: PTH123
            return f"{len(log.readline())} bytes"
