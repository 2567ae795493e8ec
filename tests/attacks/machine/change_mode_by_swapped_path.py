import ctypes
import mmap
import os
from pathlib import Path

from tests.attacks.places import Places, libc
from tests.attacks.races import rewriting, tries

TITLE = "a path that changes while it is looked at"
TRIES = "Rewrites the path from elsewhere between check and use, as often as it can."
PROMISE = "files"
MUST_FAIL = "The monitor goes by its own copy of the path."
ATTEMPTS = 150


def attack(places: Places) -> str | None:
    own = Path(places.scratch, "own_file_too")
    own.touch()
    shared = mmap.mmap(-1, 2 * 4096)
    names = (os.fsencode(name) + b"\0" for name in (own, places.files["git_credentials"]))
    rewritten = rewriting(shared, 0, *names)
    path = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    for _ in tries(ATTEMPTS, rewritten):
        libc.chmod(path, 0o644)
    return "tried it all"


def seen(places: Places) -> bool:
    return Path(places.files["git_credentials"]).stat().st_mode & 0o777 == 0o644
