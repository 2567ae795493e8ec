from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "An attribute that changes bytes: ident"
TRIES = "`$Id$` is filled in on checkout and emptied on the way in."
MUST_FAIL = "Files are staged with the attributes that hold after the change."
CONTROL = "raw"
GAINS = "other bytes"


def attack(checkout: Path, places: Places) -> None:
    (checkout / ".gitattributes").write_text("*.py ident\n")
    (checkout / "shop.py").write_text('VERSION = "$Id: 0123 $"\n')
