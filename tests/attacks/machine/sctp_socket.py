import socket

from tests.attacks.places import Places

TITLE = "SCTP"
TRIES = "Makes a stream socket of another protocol, whose connect some filters do not see."
PROMISE = "network"
MUST_FAIL = "Streams are TCP or nothing."
LOOT = "a right"


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    return "an SCTP socket"
