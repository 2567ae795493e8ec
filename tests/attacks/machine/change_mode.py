from pathlib import Path

from tests.attacks.places import Places

TITLE = "the mode of a foreign file"
TRIES = "Opens a private file of the job's user to everybody."
PROMISE = "files"
MUST_FAIL = "In a namespace the file is not there; another user may not; else the monitor refuses."


def attack(places: Places) -> str | None:
    Path(places.files["ssh_key"]).chmod(0o644)
    return "changed"


def seen(places: Places) -> bool:
    return Path(places.files["ssh_key"]).stat().st_mode & 0o777 == 0o644
