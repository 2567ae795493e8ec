from pathlib import Path

from tests.attacks.git_world import Places, configure, run_git

TITLE = "A repository inside the checkout"
TRIES = (
    "A nested .git with a configuration of its own: git status looks into it, and runs its monitor."
)
MUST_FAIL = "A path with a part `.git` is refused by name."
GAINS = ("program", "token")
REFUSED = "sub/.git/HEAD: git reserves such names"


def attack(checkout: Path, places: Places) -> None:
    run_git(checkout, "init", "-q", "sub")
    run_git(checkout / "sub", "commit", "-q", "--allow-empty", "-m", "x")
    configure(checkout / "sub", "core.fsmonitor", places.program())
