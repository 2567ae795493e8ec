from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "Line ends are changed on the way"
TRIES = "core.autocrlf stores other bytes than those that were verified."
MUST_FAIL = "What is put into the tree for Verify is what git gives back for the captured tree."
GAINS = ("other content",)


def attack(checkout: Path, places: Places) -> None:
    (checkout / "shop.py").write_bytes(b"x = 1\r\n")
    configure(checkout, "core.autocrlf", "input")
