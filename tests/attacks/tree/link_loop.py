from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A link to itself"
TRIES = "Whoever follows it gets an error, or never comes back."
MUST_FAIL = "Links are refused by name; nothing here opens one."
CONTROL = "follow"
GAINS = "fails"
REFUSED = "loop: it is a symbolic link"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "loop").symlink_to("loop")
