from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "HEAD on a commit of the agent's"
TRIES = "The night's commit would stand on top of another one, and bring it along."
MUST_FAIL = "The parent is the base commit that was checked out before the agent."
GAINS = ("other history",)


def attack(checkout: Path, places: Places) -> None:
    evil = run_git(checkout, "commit-tree", f"{places.base}^{{tree}}", "-p", places.base, "-m", "x")
    (checkout / ".git/HEAD").write_text(f"{evil}\n")
