import os
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A file of a terabyte"
TRIES = "No block on the disk, and more bytes than memory has."
MUST_FAIL = "Sizes are told by stat; beyond the limit a file is refused unread."
CONTROL = "follow"
GAINS = "hangs"
REFUSED = "large.bin: it is larger than 5000000 bytes"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "large.bin").touch()
    os.truncate(checkout / "large.bin", 1 << 40)
