import ctypes
from pathlib import Path

from tests.attacks.places import Places, checked, flag_in, libc, read

TITLE = "a mount in the checkout"
TRIES = "Binds the job's private folder to one of its own."
PROMISE = "files"
MUST_FAIL = "No capability to do so, and the filter refuses mount."
BIND, DETACH = 0x1000, 2


def _bound(source: str, target: Path) -> str | None:
    target.mkdir()
    checked(libc.mount(source.encode(), str(target).encode(), None, ctypes.c_ulong(BIND), None))
    try:
        return flag_in(read(target / "results/result.json"))
    finally:
        libc.umount2(str(target).encode(), DETACH)


def needs(places: Places) -> None:
    assert _bound(places.outside, Path(places.outside, "mount_needs")), "no mounts"


def attack(places: Places) -> str | None:
    return _bound(places.outside, Path(places.checkout, "mounted"))
