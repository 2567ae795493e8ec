from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A folder that nobody may enter"
TRIES = "Mode 000: what lies in it is not seen."
MUST_FAIL = "A folder of ours is opened for the look and closed again."
CONTROL = "follow"
GAINS = "lost"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "hidden").mkdir()
    (checkout / "hidden/evil.py").write_text("evil = 1\n")
    (checkout / "hidden").chmod(0)
