import ctypes
import mmap
import socket
import struct

from tests.attacks.places import Places, call, heard

TITLE = "connect by io_uring"
TRIES = "Puts the connect into a ring that the kernel empties by itself, past any filter of calls."
PROMISE = "network"
MUST_FAIL = "The filter refuses to make a ring."
CONNECT, WAIT, SHARED = 16, 1, mmap.MAP_SHARED


def needs(places: Places) -> None:
    call(places, "io_uring_setup", 2, ctypes.create_string_buffer(120))


def attack(places: Places) -> str | None:
    set_up = ctypes.create_string_buffer(120)
    ring = call(places, "io_uring_setup", 2, set_up)
    at = struct.unpack_from("=10I", set_up, 40)  # sq_off: head, tail, mask, …, array at 6
    queue = mmap.mmap(ring, at[6] + 8, SHARED)
    entries = mmap.mmap(ring, 128, SHARED, offset=0x10000000)
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    port = places.ports["tcp"].to_bytes(2, "big")
    raw = struct.pack("=H", socket.AF_INET) + port + b"\x7f\0\0\1" + bytes(8)
    address = ctypes.create_string_buffer(raw, 16)
    where = ctypes.addressof(address)
    entries[:32] = struct.pack("=BBHiQQII", CONNECT, 0, 0, one.fileno(), 16, where, 0, 0)
    struct.pack_into("=I", queue, at[6], 0)
    struct.pack_into("=I", queue, at[1], 1)
    call(places, "io_uring_enter", ring, 1, 1, WAIT, None, 0)
    return heard(one)
