from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "Names that look like two"
TRIES = "A file `x\\nM  shop.py`: a program that reads names line by line sees another one."
MUST_FAIL = "Names are separated by NUL everywhere."
GAINS = ("other content",)
ALSO = ("x\nM  shop.py", "--all", "a\x1b[2K\rb")
HELD_BY_GIT = "add -A reads no names"


def attack(checkout: Path, places: Places) -> None:
    for name in ("x\nM  shop.py", "--all", "a\x1b[2K\rb"):
        (checkout / name).write_text("odd\n")
