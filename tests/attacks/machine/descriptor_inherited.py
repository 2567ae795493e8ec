import os
from pathlib import Path

from tests.attacks.places import Places, flag_in, read

TITLE = "an inherited descriptor"
TRIES = "Reads every descriptor that it was born with."
PROMISE = "secrets"
MUST_FAIL = "The launcher closes everything beyond 2."


def attack(places: Places) -> str | None:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        if entry.exists() and entry.is_file() and int(entry.name) > 2:
            found.append(flag_in(os.pread(int(entry.name), 100, 0)) or flag_in(read(entry)))
    return " ".join(filter(None, found))
