import ctypes
import os
import socket
import struct
import threading
import time

from tests.attacks.places import Places, flag_in, libc

TITLE = "a descriptor that changes while it is looked at"
TRIES = "Shows a UNIX socket to whoever judges bind, and puts a UDP socket in its place."
PROMISE = "network"
MUST_FAIL = "A UDP socket hears loopback's device only, whatever address it is bound to."
RACING_S = 1.5


def needs(places: Places) -> None:
    assert places.own_address, "no network on this machine"


def attack(places: Places) -> str | None:
    port, host = places.ports["raced"].to_bytes(2, "big"), socket.inet_aton(places.own_address)
    raw = struct.pack("=H", socket.AF_INET) + port + host + bytes(8)
    until, udp = time.monotonic() + RACING_S, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place = os.dup(unix.fileno())

    def swap() -> None:
        while time.monotonic() < until:
            os.dup2(udp.fileno(), place)
            os.dup2(unix.fileno(), place)

    threading.Thread(target=swap, daemon=True).start()
    udp.settimeout(0.3)
    while time.monotonic() < until:
        libc.bind(place, ctypes.c_char_p(raw), 16)
        if udp.getsockname()[0] == places.own_address:
            device = udp.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
            return None if device.startswith(b"lo\0") else flag_in(udp.recv(100))
    return None
