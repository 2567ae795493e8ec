from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "Hooks from a folder of the agent's"
TRIES = "Set core.hooksPath to a folder outside of the checkout with a prepare-commit-msg."
MUST_FAIL = "The configuration of the agent's .git is never read."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    places.program("prepare-commit-msg")
    configure(checkout, "core.hooksPath", places.lair)
