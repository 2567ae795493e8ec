from pathlib import Path

from tests.attacks.places import Places, flag_in, read

TITLE = "~/.ssh by way of /proc/self/root"
TRIES = "Lists and reads keys by a path that does not begin with a home."
PROMISE = "secrets"
MUST_FAIL = "Rules are about files and folders, not about how they are named."


def attack(places: Places) -> str | None:
    folder = Path(f"/proc/self/root{places.home}/.ssh")
    return flag_in(b"".join(read(entry) for entry in folder.iterdir()))
