import os

from tests.attacks.places import Places, begun, live_on, lives

TITLE = "a pipe that is held open"
TRIES = "Leaves a grandchild that keeps stdout and stderr: whoever reads to the end waits for it."
PROMISE = "lifetime"
MUST_FAIL = "The grandchild is ended with the bead, and reading is bounded."


def attack(places: Places) -> str | None:
    if os.fork() == 0:
        if os.fork() == 0:
            for fd in (10, 11, 12):
                os.dup2(1, fd)
            live_on(places, "held_pipe")
        os._exit(0)
    os.wait()
    return begun(places, "held_pipe")


def seen(places: Places) -> bool:
    return lives(places, "held_pipe")
