from pathlib import Path

from tests.attacks.places import Places, plant, planted

TITLE = "writing through a symbolic link"
TRIES = "Links to a foreign folder and makes a file in it."
PROMISE = "files"
MUST_FAIL = "A link grants nothing: what it names has to be allowed by itself."


def attack(places: Places) -> str | None:
    link = Path(places.checkout, "elsewhere")
    link.symlink_to(places.public)
    return plant(link / "by_link")


def seen(places: Places) -> bool:
    return planted(Path(places.public, "by_link"))
