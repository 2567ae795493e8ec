import ctypes
import os
import struct
from pathlib import Path

from tests.attacks.places import Places, checked, libc

TITLE = "the times of a foreign file by older calls"
TRIES = "Makes a file look old by utime, utimes, futimesat, lutimes and by a descriptor."
PROMISE = "files"
MUST_FAIL = "Each call that can do it is the monitor's."


def attack(places: Places) -> str | None:
    path = os.fsencode(places.files["runner_config"])
    seconds, pairs = struct.pack("=2q", 1, 1), struct.pack("=4q", 1, 0, 1, 0)
    held, empty = os.open(path, os.O_PATH), 0x1000
    for call, *arguments in (
        (libc.utime, path, seconds),
        (libc.utimes, path, pairs),
        (libc.lutimes, path, pairs),
        (libc.futimesat, -100, path, pairs),
        (libc.utimensat, held, b"", pairs, ctypes.c_int(empty)),
    ):
        try:
            checked(call(*arguments))
        except OSError:
            continue
        return "changed"
    return None


def seen(places: Places) -> bool:
    return int(Path(places.files["runner_config"]).stat().st_mtime) == 1
