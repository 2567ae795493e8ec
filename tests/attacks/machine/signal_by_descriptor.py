import fcntl
import os
import signal
import time

from tests.attacks.places import Places, hit, victim

TITLE = "a signal by a descriptor"
TRIES = "Makes a process of the job the owner of a pipe, and lets the kernel signal it for input."
PROMISE = "lifetime"
MUST_FAIL = "Landlock's scope holds for such signals, too; older kernels: the filter refuses it."
SET_SIGNAL = 10


def attack(places: Places) -> str | None:
    pid = victim(places, "signal_by_descriptor")
    reading, writing = os.pipe()
    fcntl.fcntl(reading, SET_SIGNAL, signal.SIGWINCH)
    fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
    flags = fcntl.fcntl(reading, fcntl.F_GETFL)
    fcntl.fcntl(reading, fcntl.F_SETFL, flags | os.O_ASYNC)
    os.write(writing, b"x")
    time.sleep(0.1)
    return "sent"


def seen(places: Places) -> bool:
    return hit(places, "signal_by_descriptor")
