import ctypes
import mmap
import os

from tests.attacks.places import Places

TITLE = "system calls of another kind"
TRIES = "Makes a UDP socket by the 32-bit interface (int 0x80), whose numbers are others."
PROMISE = "network"
MUST_FAIL = "The filter kills whoever calls by another ABI."
LOOT = "a right"
# mov eax, 359 (socket); mov ebx, 2; mov ecx, 2; xor edx, edx; int 0x80; ret (rbx kept)
CODE = bytes.fromhex("53 b867010000 bb02000000 b902000000 31d2 cd80 5b c3")


def needs(places: Places) -> None:
    assert os.uname().machine == "x86_64", "another machine"
    attack(places)


def attack(places: Places) -> str | None:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(start)()
    return f"socket {result}" if result >= 0 else None
