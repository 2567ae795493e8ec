from pathlib import Path

from tests.attacks.git_world import Places, configure, run_git

TITLE = "Files outside of a sparse checkout"
TRIES = "core.sparseCheckout makes `git add` leave out what is not listed."
MUST_FAIL = "The index and the settings of the agent's .git are never read."
GAINS = ("change lost",)


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "core.sparseCheckout", "true")
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/sparse-checkout").write_text("/docs/\n")
    run_git(checkout, "update-index", "--skip-worktree", "shop.py")
