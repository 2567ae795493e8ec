import os
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A chain of links"
TRIES = "Links to links, the first ones inside: only the last one leads out."
MUST_FAIL = "Links are refused by name, inside or not."
CONTROL = "follow"
GAINS = "secret"
REFUSED = "docs/one: it is a symbolic link"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "docs/one").symlink_to("two")
    (checkout / "docs/two").symlink_to("../three")
    (checkout / "three").symlink_to(os.path.relpath(places.home / "secret", checkout))
