import ctypes
import mmap
import socket
import struct
import time

from tests.attacks.places import Places, hit, libc
from tests.attacks.races import rewriting, tries

TITLE = "an address that changes while it is looked at"
TRIES = "Rewrites the address from elsewhere between check and use, as often as it can."
PROMISE = "network"
MUST_FAIL = "The monitor connects by its own copy of the address."
ATTEMPTS = 100


def _address(port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + port.to_bytes(2, "big") + b"\x7f\0\0\1" + bytes(8)


def attack(places: Places) -> str | None:
    good, bad = _address(places.gateway), _address(places.ports["race"])
    shared = mmap.mmap(-1, 4096)
    rewritten = rewriting(shared, 0, bad, good)
    address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    for _ in tries(ATTEMPTS, rewritten):
        with socket.socket() as one:
            libc.connect(one.fileno(), address, 16)
        time.sleep(0.0005)
    return "tried it all"


def seen(places: Places) -> bool:
    return hit(places, "race")
