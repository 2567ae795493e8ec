from pathlib import Path

from tests.attacks.places import Places, flag_in, read

TITLE = "the logs of other beads"
TRIES = "Moves the log of an earlier bead into the checkout, where it may read."
PROMISE = "secrets"
MUST_FAIL = "Landlock refuses to move across its rules; in a namespace the file is not there."


def attack(places: Places) -> str | None:
    here = Path(places.checkout, "log")
    Path(places.files["bead_log"]).rename(here)
    return flag_in(read(here))
