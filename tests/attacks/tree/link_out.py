from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A link to a secret"
TRIES = "A symbolic link to a file outside; who reads it, reads the secret."
MUST_FAIL = "Links are refused by name; nothing here opens one."
CONTROL = "follow"
GAINS = "secret"
REFUSED = "notes.txt: it is a symbolic link"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "notes.txt").unlink()
    (checkout / "notes.txt").symlink_to(places.home / "secret")
