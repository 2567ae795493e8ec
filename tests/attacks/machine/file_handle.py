import ctypes
import os

from tests.attacks.places import Places, checked, flag_in, libc

TITLE = "a file by its handle"
TRIES = "Opens a file by its inode number, past every folder above it (as 'shocker' did)."
PROMISE = "secrets"
MUST_FAIL = "No capability to do so, and the filter refuses open_by_handle_at."


def _opened(places: Places) -> int:
    assert places.handle, "the file system has no handles"
    handle = ctypes.create_string_buffer(bytes.fromhex(places.handle))
    mount = os.open(places.checkout, os.O_RDONLY)
    return checked(libc.open_by_handle_at(mount, handle, os.O_RDONLY))


def needs(places: Places) -> None:
    os.close(_opened(places))


def attack(places: Places) -> str | None:
    return flag_in(os.read(_opened(places), 100))
