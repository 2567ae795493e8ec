import os
import signal

from tests.attacks.places import Places, begun, live_on, lives

TITLE = "a daemon that ignores signals"
TRIES = "Ignores every signal that can be ignored."
PROMISE = "lifetime"
MUST_FAIL = "What is left is ended by SIGKILL, which cannot be ignored."


def attack(places: Places) -> str | None:
    if os.fork() == 0:
        os.setsid()
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        live_on(places, "stubborn_daemon")
    return begun(places, "stubborn_daemon")


def seen(places: Places) -> bool:
    return lives(places, "stubborn_daemon")
