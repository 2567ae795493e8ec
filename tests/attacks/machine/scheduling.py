import os

from tests.attacks.places import Places, night

TITLE = "how much time another process gets"
TRIES = "Gives the process that holds the secrets the lowest priority."
PROMISE = "lifetime"
MUST_FAIL = "Another user may not; in a namespace it cannot be named."
OPEN_IN = {"landlock": "slow the job's other processes down"}
LOWEST = 19


def attack(places: Places) -> str | None:
    os.setpriority(os.PRIO_PROCESS, night(places), LOWEST)
    return "slowed down"


def seen(places: Places) -> bool:
    return os.getpriority(os.PRIO_PROCESS, places.night) == LOWEST
