import ctypes
import os
from pathlib import Path

from tests.attacks.places import Places, checked, flag_in, libc, read

TITLE = "a mount in a namespace of its own"
TRIES = "Makes a user and a mount namespace, is root there, and binds what it wants to see."
PROMISE = "files"
MUST_FAIL = "The filter refuses new namespaces in every call that could make one."
NEW_USER, NEW_MOUNTS, BIND = 0x10000000, 0x20000, 0x1000


def _bound(source: str, target: Path) -> str | None:
    checked(libc.unshare(NEW_USER | NEW_MOUNTS))
    Path("/proc/self/setgroups").write_text("deny")
    target.mkdir()
    checked(libc.mount(source.encode(), str(target).encode(), None, ctypes.c_ulong(BIND), None))
    return flag_in(read(target / "results/result.json"))


def needs(places: Places) -> None:
    assert _bound(places.outside, Path(places.outside, "namespace_needs")), f"uid {os.getuid()}"


def attack(places: Places) -> str | None:
    return _bound(places.outside, Path(places.checkout, "bound"))
