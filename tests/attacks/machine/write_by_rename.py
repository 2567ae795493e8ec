from pathlib import Path

from tests.attacks.places import Places, plant, planted

TITLE = "writing by renaming"
TRIES = "Writes a file in the checkout and moves it out."
PROMISE = "files"
MUST_FAIL = "Landlock refuses to move across its rules; in a namespace the folder is not there."


def attack(places: Places) -> str | None:
    here = Path(places.checkout, "to_be_moved")
    plant(here)
    here.rename(Path(places.public, "moved"))
    return "moved"


def seen(places: Places) -> bool:
    return planted(Path(places.public, "moved"))
