import os

from tests.attacks.places import Places

TITLE = "the mode of a foreign file that is open for reading"
TRIES = "Opens a file of the job's user that it may read, its own source, and changes the mode."
PROMISE = "files"
MUST_FAIL = "The monitor asks where the file lies that the descriptor is open on."
LOOT = "a right"


def attack(places: Places) -> str | None:
    source = os.open(__file__, os.O_RDONLY)
    os.fchmod(source, 0o666)
    return "changed" if os.fstat(source).st_mode & 0o777 == 0o666 else None
