import os

from tests.attacks.places import Places, job

TITLE = "signals to the job"
TRIES = "Asks for each process of the job whether a signal would arrive."
PROMISE = "lifetime"
MUST_FAIL = "Landlock's scope or the monitor; another user; in a namespace they cannot be named."
LOOT = "a right"


def attack(places: Places) -> str | None:
    reached = []
    for pid in job(places):
        try:
            os.kill(pid, 0)
            reached.append(str(pid))
        except OSError:
            continue
    return " ".join(reached)
