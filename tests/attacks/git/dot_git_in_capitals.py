from pathlib import Path

from tests.attacks.git_world import Places, hidden

TITLE = ".git for a file system that folds case"
TRIES = "A folder .GIT with a hook: harmless here, run on a Mac or Windows machine."
MUST_FAIL = "A name that is .git anywhere is refused by name."
GAINS = ("change lost",)
REFUSED = ".GIT/hooks/post-checkout: git reserves such names"


def attack(checkout: Path, places: Places) -> None:
    hidden(checkout, ".GIT")
