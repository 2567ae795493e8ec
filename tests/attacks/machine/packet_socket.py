import socket

from tests.attacks.places import Places

TITLE = "a packet socket"
TRIES = "Listens to every packet of the machine, and could send its own."
PROMISE = "network"
MUST_FAIL = "The filter knows three families of sockets."
LOOT = "a right"


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).close()
    return "the wire is open"
