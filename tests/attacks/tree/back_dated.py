import os
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A file with its old size and time"
TRIES = "Other bytes, as many, and the time that it had."
MUST_FAIL = "The time of the last change of the inode gives it away: no program can set it."
CONTROL = "stat"
GAINS = "lost"


def attack(checkout: Path, places: Places) -> None:
    before = (checkout / "Makefile").stat()
    data = (checkout / "Makefile").read_text()
    (checkout / "Makefile").write_text(data.replace("python3", "pythonX"))
    os.utime(checkout / "Makefile", ns=(before.st_atime_ns, before.st_mtime_ns))
