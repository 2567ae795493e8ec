from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A flood of files"
TRIES = "More files than anybody can look at."
MUST_FAIL = "The scan stops at a number of new entries, and the change is refused."
CONTROL = "follow"
GAINS = "many"
REFUSED = "more than 1000 new files and folders"
LIMITS = {"MAX_NEW_ENTRIES": 1000}


def attack(checkout: Path, places: Places) -> None:
    (checkout / "many").mkdir()
    for number in range(1500):
        (checkout / f"many/{number}").touch()
