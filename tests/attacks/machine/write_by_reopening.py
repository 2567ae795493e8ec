import os

from tests.attacks.places import Places, planted

TITLE = "writing through a descriptor for reading"
TRIES = "Opens a foreign file without any right and opens it again for writing."
PROMISE = "files"
MUST_FAIL = "The second opening is a full one, and is asked like any other."


def attack(places: Places) -> str | None:
    bare = os.open(places.files["public_file"], os.O_PATH)
    os.write(os.open(f"/proc/self/fd/{bare}", os.O_WRONLY | os.O_APPEND), b"was here\n")
    return "written"


def seen(places: Places) -> bool:
    return planted(places.files["public_file"])
