import os

from tests.attacks.places import Places, begun, live_on, lives

TITLE = "a daemon"
TRIES = "Forks twice into a session of its own and lets go of everything."
PROMISE = "lifetime"
MUST_FAIL = "The monitor ends every descendant; a namespace ends with its first process."


def attack(places: Places) -> str | None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 1000)
            live_on(places, "daemon")
        os._exit(0)
    os.wait()
    return begun(places, "daemon")


def seen(places: Places) -> bool:
    return lives(places, "daemon")
