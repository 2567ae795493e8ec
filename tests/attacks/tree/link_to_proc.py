from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A link to the reader's own environment"
TRIES = "/proc/self/environ is the environment of whoever follows it."
MUST_FAIL = "Links are refused by name; nothing here opens one."
CONTROL = "follow"
GAINS = "secret"
REFUSED = "env: it is a symbolic link"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "env").symlink_to("/proc/self/environ")
