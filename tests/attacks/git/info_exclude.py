from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A list of ignored files in .git"
TRIES = ".git/info/exclude hides new files from `git add`: a part of the change is lost."
MUST_FAIL = "The list is the real one, from before the agent."
GAINS = ("other content",)


def attack(checkout: Path, places: Places) -> None:
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/exclude").write_text("test_*\n")
