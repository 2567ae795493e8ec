from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A credential helper"
TRIES = "A helper in .git/config is told each credential that worked, to store it."
MUST_FAIL = "The push has an empty list of helpers, and no configuration of the agent's."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    keep = f"cat >> {places.loot}/stored"
    configure(checkout, "credential.helper", f"{places.program(then=keep)}")
