import os
from pathlib import Path

from tests.attacks.places import Places

TITLE = "truncating a foreign file"
TRIES = "Cuts a file by its path: it is never opened."
PROMISE = "files"
MUST_FAIL = "Landlock has a right for it; where it is too old the filter refuses the call."


def attack(places: Places) -> str | None:
    os.truncate(places.files["old_log"], 3)
    return "cut"


def seen(places: Places) -> bool:
    return Path(places.files["old_log"]).stat().st_size == 3
