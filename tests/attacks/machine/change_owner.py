import os
from pathlib import Path

from tests.attacks.places import Places

TITLE = "the owner of a foreign file"
TRIES = "Gives a file of the job's user away."
PROMISE = "files"
MUST_FAIL = "No capability to do so."
NOBODY = 65534


def needs(places: Places) -> None:
    os.chown(places.files["file_variable"], -1, NOBODY)


def attack(places: Places) -> str | None:
    os.chown(places.files["file_variable"], NOBODY, -1)
    return "given away"


def seen(places: Places) -> bool:
    return Path(places.files["file_variable"]).stat().st_uid == NOBODY
