import socket
import threading
import time
from pathlib import Path

from tests.attacks.places import Places, flag_in

TITLE = "a socket file that changes while it is looked at"
TRIES = "Swaps its own socket for a link to a foreign one again and again while it connects."
PROMISE = "network"
MUST_FAIL = "The keeper connects to what it has opened, not to a name."


def attack(places: Places) -> str | None:
    path, other = Path(places.scratch, "swapped"), Path(places.scratch, "swap")
    own = Path(places.scratch, "own.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(own))
        listener.listen(512)
        until = time.monotonic() + 0.7

        def swap() -> None:
            while time.monotonic() < until:
                for target in (own, places.sockets["plain"]):
                    other.symlink_to(target)
                    other.replace(path)

        threading.Thread(target=swap, daemon=True).start()
        while time.monotonic() < until:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(0.01)
                try:
                    client.connect(str(path))
                    if found := flag_in(client.recv(100)):
                        return found
                except OSError:
                    continue
    return None
