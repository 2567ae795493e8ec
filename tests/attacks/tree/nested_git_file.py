from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "A repository inside, by a file"
TRIES = "The nested .git is a file that leads to a repository elsewhere."
MUST_FAIL = "A path with a part `.git` is refused by name."
CONTROL = "git add"
GAINS = "link"
REFUSED = "vendor/.git: git reserves such names"


def attack(checkout: Path, places: Places) -> None:
    run_git(checkout, "init", "-q", "--separate-git-dir", str(places.lair), "vendor")
    run_git(checkout / "vendor", "commit", "-q", "--allow-empty", "-m", "x")
