import shutil
from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = ".git borrows its configuration"
TRIES = ".git/commondir makes git read hooks, configuration and refs of another folder."
MUST_FAIL = "The agent's .git is never read, nor brought back."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    shutil.copytree(checkout / ".git", places.lair)
    configure(places.lair, "core.fsmonitor", places.program(), file="config")
    (checkout / ".git/commondir").write_text(f"{places.lair}\n")
