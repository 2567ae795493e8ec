import socket

from tests.attacks.places import Places, reach

TITLE = "an IPv4 address in IPv6 clothes"
TRIES = "Connects to ::ffff:127.0.0.1."
PROMISE = "network"
MUST_FAIL = "It is unwrapped before it is judged."


def needs(places: Places) -> None:
    socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close()


def attack(places: Places) -> str | None:
    return reach("::ffff:127.0.0.1", places.ports["tcp"], socket.AF_INET6)
