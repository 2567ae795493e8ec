from pathlib import Path

from tests.attacks.git_world import Places, hook

TITLE = "A pre-commit hook"
TRIES = "Write .git/hooks/pre-commit, which git runs before it commits."
MUST_FAIL = "No hook of the agent's .git ever runs: commits are made in a private repository."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    hook(checkout, "pre-commit", places)
