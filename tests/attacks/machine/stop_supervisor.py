import os
import signal
import time

from tests.attacks.places import Places, above, state

TITLE = "stopping whoever supervises it"
TRIES = "Sends SIGSTOP to the parent of all its processes, which would end them."
PROMISE = "lifetime"
MUST_FAIL = "The keeper is outside of Landlock's scope; the first of a namespace cannot be stopped."
LOOT = "a right"


def attack(places: Places) -> str | None:
    supervisor = above(places)[0]
    os.kill(supervisor, signal.SIGSTOP)
    time.sleep(0.05)
    stopped = state(supervisor) == "T"
    os.kill(supervisor, signal.SIGCONT)
    return f"{supervisor} was stopped" if stopped else None
