from pathlib import Path

from tests.attacks.places import Places

TITLE = "removing a foreign file"
TRIES = "Unlinks the log of another bead, and puts a folder in its place."
PROMISE = "files"
MUST_FAIL = "Landlock has a right for it; in a namespace the file is not there."


def attack(places: Places) -> str | None:
    Path(places.files["crontab"]).with_name("spare").unlink()
    return "removed"


def seen(places: Places) -> bool:
    return not Path(places.files["crontab"]).with_name("spare").exists()
