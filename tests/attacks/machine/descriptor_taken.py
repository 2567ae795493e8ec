import os

from tests.attacks.places import Places, call, flag_in, night

TITLE = "a descriptor by pidfd_getfd"
TRIES = "Takes an open file of another process, which has no name any more."
PROMISE = "secrets"
MUST_FAIL = "The filter does not let the call through at all."


def needs(places: Places) -> None:
    os.close(call(places, "pidfd_getfd", os.pidfd_open(os.getpid()), 1, 0))


def attack(places: Places) -> str | None:
    taken = call(places, "pidfd_getfd", os.pidfd_open(night(places)), places.descriptor, 0)
    return flag_in(os.pread(taken, 100, 0))
