import shutil
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A folder swapped for a link"
TRIES = "docs becomes a link to HOME: the same names lead to other files."
MUST_FAIL = "Every part of a path is opened without following a link; the link is refused by name."
CONTROL = "follow"
GAINS = "secret"
REFUSED = "docs: it is a symbolic link"


def attack(checkout: Path, places: Places) -> None:
    shutil.rmtree(checkout / "docs")
    (checkout / "docs").symlink_to(places.home)
