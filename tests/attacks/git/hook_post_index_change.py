from pathlib import Path

from tests.attacks.git_world import Places, hook

TITLE = "A hook that runs on `git add`"
TRIES = "Write .git/hooks/post-index-change: a program that only stages files runs it."
MUST_FAIL = "Changed files are staged in a private repository."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    hook(checkout, "post-index-change", places)
