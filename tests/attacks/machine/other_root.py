import os

from tests.attacks.places import Places

TITLE = "another root folder"
TRIES = "Calls chroot: the first step out of every sandbox that is one."
PROMISE = "files"
MUST_FAIL = "The filter refuses the call, and the capability is gone."
LOOT = "a right"


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    os.chroot(places.checkout)
    return "a root of its own"
