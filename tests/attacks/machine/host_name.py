import socket

from tests.attacks.places import Places

TITLE = "the machine's name"
TRIES = "Sets the host name (to what it is), as an example of what belongs to the machine."
PROMISE = "files"
MUST_FAIL = "The filter refuses the call, and the capability is gone."
LOOT = "a right"


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    socket.sethostname(socket.gethostname())
    return "the name can be set"
