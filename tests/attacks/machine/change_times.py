import os
from pathlib import Path

from tests.attacks.places import Places

TITLE = "the times of a foreign file"
TRIES = "Makes a file of the job's user look old, so that a build or a backup passes it over."
PROMISE = "files"
MUST_FAIL = "In a namespace the file is not there; another user may not; else the monitor refuses."


def attack(places: Places) -> str | None:
    os.utime(places.files["private_results"], (1, 1))
    return "changed"


def seen(places: Places) -> bool:
    return int(Path(places.files["private_results"]).stat().st_mtime) == 1
