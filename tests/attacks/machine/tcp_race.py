import ctypes
import mmap
import os
import socket
import struct
import time

from tests.attacks.places import Places, hit, libc

TITLE = "an address that changes while it is looked at"
TRIES = "Rewrites the address from elsewhere between check and use, as often as it can."
PROMISE = "network"
MUST_FAIL = "The keeper connects by its own copy of the address."
RACING_S = 1.0


def _address(port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + port.to_bytes(2, "big") + b"\x7f\0\0\1" + bytes(8)


def attack(places: Places) -> str | None:
    good, bad = _address(places.gateway), _address(places.ports["race"])
    shared, tries, until = mmap.mmap(-1, 4096), 0, time.monotonic() + RACING_S
    if os.fork() == 0:
        while time.monotonic() < until:
            shared[:16] = bad
            shared[:16] = good
        os._exit(0)
    address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    while time.monotonic() < until:
        with socket.socket() as one:
            libc.connect(one.fileno(), address, 16)
            tries += 1
        time.sleep(0.002)
    os.wait()
    return f"{tries} tries"


def seen(places: Places) -> bool:
    return hit(places, "race")
