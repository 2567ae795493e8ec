from pathlib import Path

from tests.attacks.git_world import Places, hook

TITLE = "A hook for every ref that moves"
TRIES = "Write .git/hooks/reference-transaction: fetch, commit and push run it."
MUST_FAIL = "No ref of the agent's .git is moved."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    hook(checkout, "reference-transaction", places)
