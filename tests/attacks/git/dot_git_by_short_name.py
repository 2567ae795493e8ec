from pathlib import Path

from tests.attacks.git_world import Places, hidden

TITLE = ".git by its short name of Windows"
TRIES = "A folder git~1 with a hook."
MUST_FAIL = "A name that is .git anywhere is refused by name."
GAINS = ("change lost",)
REFUSED = "git~1/hooks/post-checkout: git reserves such names"


def attack(checkout: Path, places: Places) -> None:
    hidden(checkout, "git~1")
