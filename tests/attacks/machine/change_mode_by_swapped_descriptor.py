import contextlib
import os
import threading
from pathlib import Path

from tests.attacks.places import Places
from tests.attacks.races import tries

TITLE = "a descriptor that changes while it is looked at"
TRIES = "Replaces its own file by a foreign one under the same number while it changes the mode."
PROMISE = "files"
MUST_FAIL = "The monitor changes what it has taken from there and looked at, not a number."
LOOT = "a right"
ATTEMPTS = 150


def attack(places: Places) -> str | None:
    foreign = os.open(__file__, os.O_RDONLY)
    own = os.open(Path(places.scratch, "own_file_again"), os.O_RDWR | os.O_CREAT, 0o600)
    number, moves, ended = os.dup(own), [0], threading.Event()

    def replace() -> None:
        while not ended.is_set():
            for fd in (foreign, own):
                os.dup2(fd, number)
            moves[0] += 1

    threading.Thread(target=replace, daemon=True).start()
    for _ in tries(ATTEMPTS, lambda: moves[0]):
        with contextlib.suppress(OSError):
            os.fchmod(number, 0o777)
    ended.set()
    return "changed" if os.fstat(foreign).st_mode & 0o777 == 0o777 else None
