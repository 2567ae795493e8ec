from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "A repository inside"
TRIES = "`git add` stores a link to a commit in its place: nobody ever sees the files."
MUST_FAIL = "A path with a part `.git` is refused by name."
CONTROL = "git add"
GAINS = "link"
REFUSED = "vendor/.git/HEAD: git reserves such names"


def attack(checkout: Path, places: Places) -> None:
    run_git(checkout, "init", "-q", "vendor")
    run_git(checkout / "vendor", "commit", "-q", "--allow-empty", "-m", "x")
