from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A file that nobody may read"
TRIES = "Mode 000: a reader that skips what it cannot read misses the change."
MUST_FAIL = "A file of ours is opened for the look and closed again."
CONTROL = "follow"
GAINS = "fails"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "shop.py").write_text("evil = 1\n")
    (checkout / "shop.py").chmod(0)
