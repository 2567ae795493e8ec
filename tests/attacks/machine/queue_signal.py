import ctypes
import os
import signal

from tests.attacks.places import Places, call, hit, victim

TITLE = "a queued signal"
TRIES = "Sends by rt_tgsigqueueinfo to one thread, which not every filter of kill knows."
PROMISE = "lifetime"
MUST_FAIL = "All calls that send signals are asked the same."
QUEUE = -1


def attack(places: Places) -> str | None:
    pid = victim(places, "queue_signal")
    info = ctypes.create_string_buffer(128)
    head = (int(signal.SIGWINCH), 0, QUEUE, 0, os.getpid(), os.getuid())
    ctypes.memmove(info, (ctypes.c_int * 6)(*head), 24)
    call(places, "rt_tgsigqueueinfo", pid, pid, int(signal.SIGWINCH), info)
    return "sent"


def seen(places: Places) -> bool:
    return hit(places, "queue_signal")
