import contextlib
from pathlib import Path

from tests.attacks.places import Places, flag_in, read

TITLE = "a private file in /opt by other names"
TRIES = "Opens it by a link in the checkout, and by the reader's own root in /proc."
PROMISE = "secrets"
MUST_FAIL = "No name leads around a rule or a mount that covers the file itself."


def needs(places: Places) -> None:
    assert read(places.files["installed_key"]), "needs root that may mount"


def attack(places: Places) -> str | None:
    target, link = places.files["installed_key"], Path(places.checkout, "key")
    link.symlink_to(target)
    for way in (link, f"/proc/self/root{target}"):
        with contextlib.suppress(OSError):
            if flag := flag_in(read(way)):
                return flag
    return None
