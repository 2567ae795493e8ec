import ctypes
import os
import struct
from pathlib import Path

from tests.attacks.places import Places, checked, libc

TITLE = "names of private files"
TRIES = "Watches the job's private folder by inotify, and asks for a file's size."
PROMISE = "files"
MUST_FAIL = "In a namespace the folder is not there; another user may not enter it."
OPEN_IN = {"landlock": "see that a file is there"}
LOOT = "a right"
OPENED = 0x20


def attack(places: Places) -> str | None:
    watch = checked(libc.inotify_init1(os.O_NONBLOCK))
    path = places.files["private_results"]
    checked(libc.inotify_add_watch(watch, ctypes.c_char_p(path.encode()), OPENED))
    return f"{path} has {Path(path).stat().st_size} bytes, watched by {struct.calcsize('i')}"
