from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A damaged list of shallow commits"
TRIES = ".git/shallow holds rubbish: every git command fails."
MUST_FAIL = "The list is copied before an agent starts."
GAINS = ("change lost",)


def attack(checkout: Path, places: Places) -> None:
    (checkout / ".git/shallow").write_text("rubbish\n")
