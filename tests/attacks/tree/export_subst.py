from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "An attribute of archives"
TRIES = "export-subst fills in commit names when an archive is made, never in a tree."
MUST_FAIL = "The blob is the bytes that stood in the tree."
CONTROL = "raw"
GAINS = "other bytes"
HELD_BY_GIT = "add stores the bytes as they are"


def attack(checkout: Path, places: Places) -> None:
    (checkout / ".gitattributes").write_text("*.py export-subst\n")
    (checkout / "shop.py").write_text('VERSION = "$Format:%H$"\n')
