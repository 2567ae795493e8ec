from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "A submodule without a word in .gitmodules"
TRIES = "A nested repository becomes a commit link in the tree: nobody sees its files."
MUST_FAIL = "A path with a part `.git` is refused by name."
GAINS = ("other content",)
REFUSED = "vendor/.git/HEAD: git reserves such names"


def attack(checkout: Path, places: Places) -> None:
    run_git(checkout, "init", "-q", "vendor")
    run_git(checkout / "vendor", "commit", "-q", "--allow-empty", "-m", "x")
