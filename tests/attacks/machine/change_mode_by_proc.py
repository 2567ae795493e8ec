import os
from pathlib import Path

from tests.attacks.places import Places

TITLE = "the mode of a foreign file by /proc"
TRIES = "Holds it without rights to it, and goes by /proc/self/fd, /dev/fd, /proc/self/root."
PROMISE = "files"
MUST_FAIL = "For the monitor /proc/self is the caller's, and what it leads to lies outside."


def attack(places: Places) -> str | None:
    victim = places.files["old_log"]
    held = os.open(victim, os.O_PATH)
    own = os.getpid()
    ways = [f"/proc/self/fd/{held}", f"/proc/{own}/fd/{held}", f"/dev/fd/{held}"]
    for path in (*ways, f"/proc/self/root{victim}", f"/proc/{own}/root{victim}"):
        try:
            Path(path).chmod(0o644)
        except OSError:
            continue
        return "changed"
    return None


def seen(places: Places) -> bool:
    return Path(places.files["old_log"]).stat().st_mode & 0o777 == 0o644
