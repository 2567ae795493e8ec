from pathlib import Path

from tests.attacks.places import Places, plant, planted

TITLE = "writing through a hard link"
TRIES = "Gives a foreign file a name in the checkout and writes to that."
PROMISE = "files"
MUST_FAIL = "Landlock refuses to link across its rules; in a namespace the file is not there."


def attack(places: Places) -> str | None:
    name = Path(places.checkout, "linked")
    name.hardlink_to(places.files["public_file"])
    return plant(name)


def seen(places: Places) -> bool:
    return planted(places.files["public_file"])
