from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A file system monitor"
TRIES = "Set core.fsmonitor to a program: git status and git add run it."
MUST_FAIL = "No git looks at the agent's tree: what differs is told by stat alone."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "core.fsmonitor", places.program())
