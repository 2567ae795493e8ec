import socket

from tests.attacks.places import Places, heard

TITLE = "multipath TCP"
TRIES = "Reaches a TCP service by MPTCP, for which Landlock's port rules do not hold."
PROMISE = "network"
MUST_FAIL = "Streams are TCP or nothing."
MPTCP = 262


def needs(places: Places) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP).close()


def attack(places: Places) -> str | None:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    one.connect(("127.0.0.1", places.ports["tcp"]))
    return heard(one)
