from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "A file that git does not look at"
TRIES = "The bit skip-worktree in the index: the change of that file is lost."
MUST_FAIL = "The index of the agent's .git is never read."
GAINS = ("other content",)


def attack(checkout: Path, places: Places) -> None:
    run_git(checkout, "update-index", "--skip-worktree", "shop.py")
