import socket

from tests.attacks.places import Places

TITLE = "a ping socket"
TRIES = "Makes a datagram socket for ICMP, which needs no right on many machines."
PROMISE = "network"
MUST_FAIL = "The filter knows streams only."
LOOT = "a right"


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).close()
    return "echo requests can be sent"
