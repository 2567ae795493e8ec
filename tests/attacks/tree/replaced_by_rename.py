import os
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "Another file in the same place"
TRIES = "A file prepared elsewhere with the same size, mode and time is moved over the old one."
MUST_FAIL = "Inode and the inode's own time are compared too."
CONTROL = "stat"
GAINS = "lost"


def attack(checkout: Path, places: Places) -> None:
    before = (checkout / "Makefile").stat()
    data = (checkout / "Makefile").read_text()
    (checkout / "new").write_text(data.replace("python3", "pythonX"))
    os.utime(checkout / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (checkout / "new").replace(checkout / "Makefile")
