import os
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A FIFO"
TRIES = "Whoever opens it for reading waits for ever."
MUST_FAIL = "The kind is looked at before it is opened, and opened without waiting."
CONTROL = "follow"
GAINS = "hangs"
REFUSED = "pipe: it is no file or folder"


def attack(checkout: Path, places: Places) -> None:
    os.mkfifo(checkout / "pipe")
