import fcntl
import os
import struct

from tests.attacks.places import Places

TITLE = "the flags of a foreign file"
TRIES = "Tells backups to leave a file of the job's user out, by a descriptor for reading."
PROMISE = "files"
MUST_FAIL = "The filter knows no such request; another user may not; a mount is read-only."
LOOT = "a right"
GET_FLAGS, SET_FLAGS, NO_DUMP = 0x80086601, 0x40086602, 0x40


def needs(places: Places) -> None:
    _set(places.public)


def attack(places: Places) -> str | None:
    _set(__file__)
    return "changed"


def _set(path: str) -> None:
    source = os.open(path, os.O_RDONLY)
    flags = struct.unpack("=q", fcntl.ioctl(source, GET_FLAGS, bytes(8)))[0]
    fcntl.ioctl(source, SET_FLAGS, struct.pack("=q", flags | NO_DUMP))
