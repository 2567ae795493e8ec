import ctypes
import os

from tests.attacks.places import Places, begun, checked, libc, live_on, lives

TITLE = "a daemon with a parent of its own"
TRIES = "Makes itself the one that orphans go to, so that they never come to the monitor."
PROMISE = "lifetime"
MUST_FAIL = "When the foster parent is ended its children go on to the monitor, and are ended."
CHILD_SUBREAPER = 36


def attack(places: Places) -> str | None:
    if os.fork() == 0:
        os.setsid()
        checked(libc.prctl(CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0))
        if os.fork() == 0:
            if os.fork() == 0:
                live_on(places, "adopted_daemon")
            os._exit(0)
        os.wait()
        os.wait()
        os._exit(0)
    return begun(places, "adopted_daemon")


def seen(places: Places) -> bool:
    return lives(places, "adopted_daemon")
