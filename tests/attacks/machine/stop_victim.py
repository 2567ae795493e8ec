import os
import signal

from tests.attacks.places import Places, state, victim

TITLE = "stopping a process of the job"
TRIES = "Sends SIGSTOP to a process outside its own tree: nothing would end it then."
PROMISE = "lifetime"
MUST_FAIL = "Landlock's scope or the monitor; another user; in a namespace it cannot be named."


def attack(places: Places) -> str | None:
    os.kill(victim(places, "stop_victim"), signal.SIGSTOP)
    return "sent"


def seen(places: Places) -> bool:
    return state(places.victims["stop_victim"]) == "T"
