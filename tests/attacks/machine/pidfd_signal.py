import os
import signal

from tests.attacks.places import Places, hit, victim

TITLE = "a signal by a process descriptor"
TRIES = "Opens a process of the job by pidfd_open and signals that."
PROMISE = "lifetime"
MUST_FAIL = "All calls that send signals are asked the same."


def attack(places: Places) -> str | None:
    signal.pidfd_send_signal(os.pidfd_open(victim(places, "pidfd_signal")), signal.SIGWINCH)
    return "sent"


def seen(places: Places) -> bool:
    return hit(places, "pidfd_signal")
