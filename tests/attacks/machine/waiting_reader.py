import os
from pathlib import Path

from tests.attacks.places import Places, begun, live_on, lives

TITLE = "somebody at the end of a FIFO"
TRIES = "Leaves a FIFO in the checkout, and a process that waits for what is written to it."
PROMISE = "lifetime"
MUST_FAIL = "The process is ended with the bead; a FIFO is refused as a change."


def attack(places: Places) -> str | None:
    fifo = Path(places.checkout, "README.txt")
    os.mkfifo(fifo)
    if os.fork() == 0:
        os.setsid()
        os.open(fifo, os.O_RDWR)
        live_on(places, "waiting_reader")
    return begun(places, "waiting_reader")


def seen(places: Places) -> bool:
    return lives(places, "waiting_reader")
