from pathlib import Path

from tests.attacks.git_world import Places
from tests.system.test_openat import deep

TITLE = "A path longer than the system takes"
TRIES = "Folders within folders: no program can open the file by its whole path."
MUST_FAIL = "Every folder is opened from the one above it; such a path is refused."
CONTROL = "follow"
GAINS = "lost"
REFUSED = ": its path is too long"


def attack(checkout: Path, places: Places) -> None:
    deep(checkout, 250)
