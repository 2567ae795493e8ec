import shutil
from pathlib import Path

from tests.attacks.git_world import Places, configure, run_git

TITLE = "A file that a monitor has vouched for"
TRIES = "The bit fsmonitor-valid in the index, and a monitor that reports no change."
MUST_FAIL = "The index of the agent's .git is never read."
GAINS = ("program", "other content")


def attack(checkout: Path, places: Places) -> None:
    monitor = places.program(then='printf "token\\0"')
    configure(checkout, "core.fsmonitor", monitor)
    configure(checkout, "core.fsmonitorHookVersion", 2)
    run_git(checkout, "checkout", "-q", "--", "shop.py")
    run_git(checkout, "update-index", "--fsmonitor")
    run_git(checkout, "update-index", "--fsmonitor-valid", "shop.py")
    (checkout / "shop.py").write_text("changed = True\n")
    shutil.rmtree(places.loot)
    places.loot.mkdir()
