import contextlib
import socket
import time
from pathlib import Path

from tests.attacks.places import LONG_S, Places, flag_in
from tests.attacks.races import beside, tries

TITLE = "a socket file that changes while it is looked at"
TRIES = "Swaps its own socket for a link to a foreign one again and again while it connects."
PROMISE = "network"
MUST_FAIL = "The monitor connects to what it has opened, not to a name."
ATTEMPTS = 150


def attack(places: Places) -> str | None:
    path, other = Path(places.scratch, "swapped"), Path(places.scratch, "swap")
    own = Path(places.scratch, "own.sock")

    def swap() -> None:
        for target in (own, places.sockets["plain"]):
            other.symlink_to(target)
            other.replace(path)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(own))
        listener.listen(512)
        for _ in tries(ATTEMPTS, beside(swap)):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.setblocking(False)
                try:
                    client.connect(str(path))
                except BlockingIOError:  # a queue is full: the other side needs time
                    time.sleep(0.001)
                    continue
                if client.getpeername() != str(own):
                    client.settimeout(LONG_S)
                    return flag_in(client.recv(100))
                listener.accept()[0].close()
    return None
