from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "Entries without content"
TRIES = "`git add -N` for new files: a program that commits what is staged loses them."
MUST_FAIL = "The index of the agent's .git is never read."
GAINS = ("other content",)
HELD_BY_GIT = "add -A gives the entries their content"


def attack(checkout: Path, places: Places) -> None:
    run_git(checkout, "add", "-N", "test_discount.py")
