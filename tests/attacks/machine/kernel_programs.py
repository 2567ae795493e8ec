import ctypes
import struct

from tests.attacks.places import Places, call

TITLE = "programs in the kernel"
TRIES = "Makes a BPF map, the first step to programs that read kernel memory."
PROMISE = "secrets"
MUST_FAIL = "The filter refuses bpf."
LOOT = "a right"
MAP_CREATE, ARRAY = 0, 2


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    wanted = ctypes.create_string_buffer(struct.pack("=IIII", ARRAY, 4, 4, 1), 120)
    return f"map {call(places, 'bpf', MAP_CREATE, wanted, 120)}"
