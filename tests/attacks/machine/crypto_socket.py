import socket

from tests.attacks.places import Places

TITLE = "the kernel's crypto interface"
TRIES = "Makes an AF_ALG socket: a large part of the kernel that had many holes."
PROMISE = "network"
MUST_FAIL = "The filter knows three families of sockets."
LOOT = "a right"


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0).close()
    return "an AF_ALG socket"
