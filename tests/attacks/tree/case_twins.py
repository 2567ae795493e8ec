from pathlib import Path

from tests.attacks.git_world import Places, run_git

TITLE = "Two names that differ in case"
TRIES = "Shop.py beside shop.py, where a setting says that case does not matter."
MUST_FAIL = "The setting is read before an agent starts: both are there."
CONTROL = "git add"
GAINS = "lost"


def attack(checkout: Path, places: Places) -> None:
    run_git(checkout, "config", "core.ignoreCase", "true")
    (checkout / "SHOP.py").write_text("evil = 1\n")
