from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A hard link to a secret"
TRIES = "No link to see: a plain file, with a second name outside."
MUST_FAIL = "A new file with several names is refused."
CONTROL = "follow"
GAINS = "secret"
REFUSED = "notes.txt: it has several hard links"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "notes.txt").unlink()
    (checkout / "notes.txt").hardlink_to(places.home / "secret")
