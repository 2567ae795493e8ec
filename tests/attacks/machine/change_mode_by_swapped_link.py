import contextlib
from pathlib import Path

from tests.attacks.places import Places
from tests.attacks.races import beside, tries

TITLE = "a file that changes while its mode is"
TRIES = "Swaps its own file for a link to a foreign one again and again while it changes the mode."
PROMISE = "files"
MUST_FAIL = "The monitor changes what it has opened and looked at, not a name."
ATTEMPTS = 150


def attack(places: Places) -> str | None:
    path, other = Path(places.scratch, "changing"), Path(places.scratch, "change")
    own = Path(places.scratch, "own_file")
    own.touch()

    def swap() -> None:
        for target in (own, places.files["netrc"]):
            other.symlink_to(target)
            other.replace(path)

    for _ in tries(ATTEMPTS, beside(swap)):
        with contextlib.suppress(OSError):
            path.chmod(0o644)
    return "tried it all"


def seen(places: Places) -> bool:
    return Path(places.files["netrc"]).stat().st_mode & 0o777 == 0o644
