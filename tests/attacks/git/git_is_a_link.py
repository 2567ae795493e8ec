import shutil
from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = ".git is a symbolic link"
TRIES = ".git leads to a repository of the agent's with hooks."
MUST_FAIL = (
    "The real .git is elsewhere meanwhile; whatever stands in its place is taken away unread."
)
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    shutil.move(checkout / ".git", places.lair)
    (checkout / ".git").symlink_to(places.lair)
    configure(checkout, "core.fsmonitor", places.program())
