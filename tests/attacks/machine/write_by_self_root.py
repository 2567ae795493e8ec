from pathlib import Path

from tests.attacks.places import Places, plant, planted

TITLE = "writing through /proc/self/root"
TRIES = "Names a foreign folder by a path that begins with its own process."
PROMISE = "files"
MUST_FAIL = "Rules are about files and folders, not about how they are named."


def attack(places: Places) -> str | None:
    return plant(f"/proc/self/root{places.public}/by_root")


def seen(places: Places) -> bool:
    return planted(Path(places.public, "by_root"))
