from pathlib import Path

from tests.attacks.places import Places, plant, planted

TITLE = "a file beside the checkout"
TRIES = "Writes into the folder above: the next project's checkout may lie there."
PROMISE = "files"
MUST_FAIL = "Only the checkout and scratch may be written."
WHERE = "beside"


def attack(places: Places) -> str | None:
    return plant(f"{places.checkout}/../{WHERE}")


def seen(places: Places) -> bool:
    return planted(Path(places.checkout).parent / WHERE)
