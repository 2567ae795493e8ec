import os
import signal

from tests.attacks.places import Places, begun, live_on, lives

TITLE = "a stopped daemon"
TRIES = "Lets its daemon be stopped, to be woken later by somebody else."
PROMISE = "lifetime"
MUST_FAIL = "SIGKILL ends stopped processes, too."


def attack(places: Places) -> str | None:
    if (pid := os.fork()) == 0:
        os.setsid()
        live_on(places, "stopped_daemon")
    text = begun(places, "stopped_daemon")
    os.kill(pid, signal.SIGSTOP)
    return text


def seen(places: Places) -> bool:
    return lives(places, "stopped_daemon")
