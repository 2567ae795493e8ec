from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "Many files below the limit for one"
TRIES = "Each is small enough, all together are not."
MUST_FAIL = "The sum of all sizes has a limit of its own."
CONTROL = "follow"
GAINS = "many"
REFUSED = "the change is larger than 10000 bytes"
LIMITS = {"MAX_CHANGE_BYTES": 10000}


def attack(checkout: Path, places: Places) -> None:
    for number in range(1100):
        (checkout / f"part{number}").write_bytes(b"x" * 10)
