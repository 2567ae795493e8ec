from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "What is shown is not what is pushed"
TRIES = "refs/replace shows the new file where the old one was: the diff is empty, the push is not."
MUST_FAIL = "GIT_NO_REPLACE_OBJECTS everywhere, and no ref of the agent's is known."
GAINS = ("not shown",)


def attack(checkout: Path, places: Places) -> None:
    (checkout / "shop.py").write_text("import os  # and something evil\n")
    new = run_git(checkout, "hash-object", "-w", "shop.py")
    run_git(checkout, "replace", f"{places.base}:shop.py", new)
