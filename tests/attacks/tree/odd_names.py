import os
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "Names that are hard to read"
TRIES = "A newline, an escape sequence, bytes that are not UTF-8, a dash in front, a wildcard."
MUST_FAIL = "Names are bytes between NULs everywhere, and escaped before they are shown."
CONTROL = "lines"
GAINS = "lost"


def attack(checkout: Path, places: Places) -> None:
    for name in (b"a\nb", b"c\x1b[2Kd\r", b"\xff\xfe", b"--help", b":(top)*", b"x" * 255):
        (checkout / os.fsdecode(name)).write_text("odd\n")
