import contextlib
import socket
from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A socket"
TRIES = "A UNIX socket in the place of a file."
MUST_FAIL = "What is no file or folder is refused by name."
CONTROL = "follow"
GAINS = "fails"
REFUSED = "run.sh: it is no file or folder"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "run.sh").unlink()
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(checkout):
        listener.bind("run.sh")
