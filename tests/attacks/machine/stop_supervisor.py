import os
import signal
import time

from tests.attacks.places import LONG_S, Places, above, state, waited_for

TITLE = "stopping whoever supervises it"
TRIES = "Sends SIGSTOP to the parent of all its processes, which would end them."
PROMISE = "lifetime"
MUST_FAIL = (
    "The monitor is outside of Landlock's scope; the first of a namespace cannot be stopped."
)
LOOT = "a right"


def attack(places: Places) -> str | None:
    supervisor = above(places)[0]
    os.kill(supervisor, signal.SIGSTOP)
    wait_s = 0.1 if supervisor == 1 else LONG_S  # the first of a namespace never stops
    stopped = waited_for(lambda: state(supervisor) == "T", time.monotonic() + wait_s)
    os.kill(supervisor, signal.SIGCONT)
    return f"{supervisor} was stopped" if stopped else None
