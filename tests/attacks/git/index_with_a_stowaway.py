from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "A file that is in the index alone"
TRIES = "An entry with skip-worktree and without a file: it is committed, and nobody verified it."
MUST_FAIL = "The index of the agent's .git is never read."
GAINS = ("other content",)


def attack(checkout: Path, places: Places) -> None:
    blob = run_git(checkout, "hash-object", "-w", "--stdin", stdin=b"evil")
    run_git(checkout, "update-index", "--add", "--cacheinfo", f"100644,{blob},conftest.py")
    run_git(checkout, "update-index", "--skip-worktree", "conftest.py")
