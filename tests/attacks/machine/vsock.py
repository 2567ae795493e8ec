import socket

from tests.attacks.places import Places

TITLE = "vsock"
TRIES = "Makes a socket to the hypervisor, which no network namespace confines."
PROMISE = "network"
MUST_FAIL = "The filter knows three families of sockets."
LOOT = "a right"


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return "a vsock socket"
