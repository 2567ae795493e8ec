from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "The user's own ignore file"
TRIES = ".config/git/ignore hides new files from `git add`: a part of the change is lost."
MUST_FAIL = "The HOME of git here is a private folder."
GAINS = ("other content",)


def attack(checkout: Path, places: Places) -> None:
    (places.home / ".config/git").mkdir(parents=True)
    (places.home / ".config/git/ignore").write_text("test_*\n")
