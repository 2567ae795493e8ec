import os
import stat
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A device without an end"
TRIES = "The device of /dev/zero under another name."
MUST_FAIL = "What is no file or folder is refused by name."
CONTROL = "follow"
GAINS = "hangs"
REFUSED = "zero: it is no file or folder"


def attack(checkout: Path, places: Places) -> None:
    os.mknod(checkout / "zero", stat.S_IFCHR | 0o644, os.makedev(1, 5))
