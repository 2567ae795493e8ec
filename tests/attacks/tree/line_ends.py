from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "An attribute that changes bytes: eol"
TRIES = "Lines end in CR LF in the tree, and in LF in the object."
MUST_FAIL = "Files are staged with the attributes that hold after the change."
CONTROL = "raw"
GAINS = "other bytes"


def attack(checkout: Path, places: Places) -> None:
    (checkout / ".gitattributes").write_text("*.py text eol=crlf\n")
    (checkout / "shop.py").write_bytes(b"x = 1\r\n")
