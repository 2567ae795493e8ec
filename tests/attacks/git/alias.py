from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "An alias with the name of a command"
TRIES = "alias.push and alias.commit are shell commands."
MUST_FAIL = "No configuration of the agent's is read."
GAINS = ("program",)
HELD_BY_GIT = "an alias never takes the place of a command of git's own"


def attack(checkout: Path, places: Places) -> None:
    for name in ("add", "commit", "push", "diff"):
        configure(checkout, f"alias.{name}", f"!{places.program()}")
