import os
import signal

from tests.attacks.places import Places, state, victim

TITLE = "killing a process of the job"
TRIES = "Sends SIGKILL to a process outside its own tree."
PROMISE = "lifetime"
MUST_FAIL = "Landlock's scope or the monitor; another user; in a namespace it cannot be named."


def attack(places: Places) -> str | None:
    os.kill(victim(places, "kill_victim"), signal.SIGKILL)
    return "sent"


def seen(places: Places) -> bool:
    return state(places.victims["kill_victim"]) in "ZX"
